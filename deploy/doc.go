// Package deploy holds the image and the compose file, and the test that keeps
// both true to the configuration reference. It embeds the examples that the
// console shows: recipes, and configurations of gateways.
package deploy
