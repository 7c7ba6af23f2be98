// Package view holds the components that the pages of several areas share. A page is a templ component with two
// arguments: a Frame and the model of the page. Models contain the final values to show, so that templates only lay
// them out.
//
// frame.templ surrounds every page, parts.templ contains the small components (badge, card, tile, empty state, pager),
// form.templ the fields, chart.templ the drawings.
//
// No component may write a style or script attribute: the Content-Security-Policy forbids them. Drawings use SVG
// attributes. Behavior is bound to data attributes that static/app.js handles.
package view
