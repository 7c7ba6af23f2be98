// Package yamltree reads YAML documents as trees, for every kind of file that people import.
//
// An example: of the document
//
//	rules:
//	- name: a
//	  limit: 5
//
// a Reader makes an object with the member rules on line 1, a list of one object whose limit, on line 3, is what the
// Reader's Scalar makes of the text 5.
package yamltree
