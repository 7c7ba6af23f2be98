// Package deploy holds the image and the compose file, and the test that keeps
// both true to the configuration reference.
package deploy
