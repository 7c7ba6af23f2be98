package ssotest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strconv"
)

var b64 = base64.RawURLEncoding

// Token is an ID token before it is signed.
type Token struct {
	Header, Claims map[string]any

	alg      string
	provider *Provider
	foreign  bool
}

// Sign says how the token is signed: RS256 or ES256 with the provider's key, none,
// or HS256 with a secret that the provider was foolish enough to publish.
func (t *Token) Sign(alg string) {
	t.alg = alg
	t.Header["alg"] = alg
	if alg == "HS256" {
		t.Header["kid"] = "shared"
	}
}

// Forge has the token signed by a key that is not the provider's, under its name.
func (t *Token) Forge() { t.foreign = true }

// shared is a secret that the provider publishes among its keys, as sharedKey.
var (
	shared    = []byte("no secret to anyone, and long enough")
	sharedKey = map[string]any{"kty": "oct", "kid": "shared", "k": b64.EncodeToString(shared)}
)

// key is a key of the provider, as it signs and as it is published.
type key struct {
	id, alg string
	sign    func(digest []byte) []byte
	public  map[string]any
}

// Rotate replaces the provider's keys by a new one, for RS256 or ES256.
func (p *Provider) Rotate(alg string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serial++
	p.keys = []*key{newKey(alg, alg+"-"+strconv.Itoa(p.serial))}
}

// newKey panics where there is no randomness, for then nothing else will work.
func newKey(alg, id string) *key {
	k := &key{id: id, alg: alg}
	if alg == "ES256" {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		point, err := private.PublicKey.Bytes() // 4, x, y
		must(err)
		k.public = map[string]any{"kty": "EC", "crv": "P-256", "x": b64.EncodeToString(point[1:33]),
			"y": b64.EncodeToString(point[33:])}
		k.sign = func(digest []byte) []byte {
			r, s, err := ecdsa.Sign(rand.Reader, private, digest)
			must(err)
			return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
		}
	} else {
		private, err := rsa.GenerateKey(rand.Reader, 2048)
		must(err)
		k.public = map[string]any{"kty": "RSA", "n": b64.EncodeToString(private.N.Bytes()),
			"e": b64.EncodeToString(big.NewInt(int64(private.E)).Bytes())}
		k.sign = func(digest []byte) []byte {
			signature, err := rsa.SignPKCS1v15(rand.Reader, private, crypto.SHA256, digest)
			must(err)
			return signature
		}
	}
	k.public["kid"], k.public["alg"], k.public["use"] = id, alg, "sig"
	return k
}

// signed is the token as it travels.
func (t *Token) signed() string {
	k := t.provider.keys[len(t.provider.keys)-1]
	if t.Header["kid"] == nil {
		t.Header["kid"] = k.id
	}
	if t.foreign {
		k = newKey(k.alg, k.id)
	}
	text := encode(t.Header) + "." + encode(t.Claims)
	digest := sha256.Sum256([]byte(text))
	var signature []byte
	switch t.alg {
	case "none":
	case "HS256":
		mac := hmac.New(sha256.New, shared)
		mac.Write([]byte(text))
		signature = mac.Sum(nil)
	default:
		signature = k.sign(digest[:])
	}
	return text + "." + b64.EncodeToString(signature)
}

func encode(v any) string {
	text, err := json.Marshal(v)
	must(err)
	return b64.EncodeToString(text)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
