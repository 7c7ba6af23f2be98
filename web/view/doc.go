// Package view holds the components that the pages of several areas share. A page is a templ component that takes a
// Frame and a model of its own. Models hold what to show, already decided, so that templates only lay out.
//
// frame.templ is around every page, parts.templ has the small components (badge, card, tile, empty state, pager),
// form.templ the fields, chart.templ the drawings.
//
// No component may write a style or script attribute: the Content-Security-Policy forbids them. Drawings use SVG
// attributes. Behavior is bound to data attributes that static/app.js handles.
package view
