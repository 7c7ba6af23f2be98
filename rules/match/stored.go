package match

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strings"

	"sluice/limiter"
	"sluice/rules/redact"
)

// hashMark begins a value in memory that is the hash of another. It counts only if
// Descriptor.stored is set, and is not UTF-8, so no caller can send one. In a stored descriptor a
// value is marked in front: as a hash, or as one that only looks marked.
const (
	hashMark   = "\xffh"
	storedMark = "\x00"
	storedH    = storedMark + "h"
	storedRaw  = storedMark + "r"
)

// storedDescriptor is the form in which a Descriptor is stored outside the process.
type storedDescriptor struct {
	Method     string            `json:"method,omitempty"`
	Route      string            `json:"route,omitempty"`
	Host       string            `json:"host,omitempty"`
	IP         netip.Addr        `json:"ip"`
	User       string            `json:"user,omitempty"`
	APIKey     string            `json:"api_key,omitempty"`
	Tier       string            `json:"tier,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Fields     map[string]int64  `json:"fields,omitempty"`
}

// MarshalStored encodes a descriptor so that it can be stored and matched later. The API key, and every other value
// that looks like a credential, is replaced by its hash: the result of UnmarshalStored matches the same buckets. In a
// condition on such a value, the hash is used. The route and the host are unchanged.
func (d *Descriptor) MarshalStored() ([]byte, error) {
	s := storedDescriptor{
		Method: d.Method, Route: d.Route, Host: d.Host, IP: d.IP, User: concealed(d.User), Tier: concealed(d.Tier),
		Fields: d.Fields,
	}
	if d.APIKey != "" {
		s.APIKey = storedH + hashOf(d.APIKey)
	}
	if d.Attributes != nil {
		s.Attributes = make(map[string]string, len(d.Attributes))
		for name, v := range d.Attributes {
			s.Attributes[name] = concealed(v)
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(&s)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// UnmarshalStored decodes the output of MarshalStored.
func (d *Descriptor) UnmarshalStored(b []byte) error {
	var s storedDescriptor
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	for name, v := range s.Attributes {
		s.Attributes[name] = recalled(v)
	}
	*d = Descriptor{
		Method: s.Method, Route: s.Route, Host: s.Host, IP: s.IP, User: recalled(s.User), APIKey: recalled(s.APIKey),
		Tier:       recalled(s.Tier),
		Attributes: s.Attributes, Fields: s.Fields, stored: true,
	}
	return nil
}

// recalled removes the marks that concealed added.
func recalled(v string) string {
	if h, ok := strings.CutPrefix(v, storedH); ok {
		return hashMark + h
	}
	return strings.TrimPrefix(v, storedRaw)
}

func concealed(v string) string {
	switch {
	case redact.Secret(v):
		return storedH + hashOf(v)
	case strings.HasPrefix(v, storedMark):
		return storedRaw + v
	}
	return v
}

func hashOf(v string) string { return string(limiter.AppendHashed(nil, v)[len("%h"):]) }

// appendHashed appends the hash of a value, which may be one already.
func (d *Descriptor) appendHashed(dst []byte, v string) []byte {
	if h, ok := strings.CutPrefix(v, hashMark); ok && d.stored {
		return append(append(dst, '%', 'h'), h...)
	}
	return limiter.AppendHashed(dst, v)
}
