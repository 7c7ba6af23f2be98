//go:build clients

package generators

import (
	"testing"

	_ "gopkg.in/validator.v2" // generated code imports it
)

func TestClientsGo(t *testing.T) {
	url, token := serve(t)
	generated := t.TempDir()
	openapiGenerator(t, pip(t), "go", generated,
		"--additional-properties=packageName=client,disallowAdditionalPropertiesIfNotPresent=false")
	play(t, url, token, compile(t, generated, "openapigeneratorgo"))
}
