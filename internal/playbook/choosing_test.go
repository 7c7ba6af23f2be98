package playbook

import "testing"

const choosing = "../../docs/choosing.md"

func TestChoosing_ThePageIsTrue(t *testing.T) { Page(t, choosing) }

func TestChoosing_ThePageIsTrueOnRedis(t *testing.T) { PageOnRedis(t, choosing) }
