package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const base = "../kubernetes/base"

// typeOf returns an empty object of the API.
func typeOf(kind string) any {
	switch kind {
	case "Deployment":
		return &apps.Deployment{}
	case "Service":
		return &core.Service{}
	case "ConfigMap":
		return &core.ConfigMap{}
	case "Secret":
		return &core.Secret{}
	case "Job":
		return &batch.Job{}
	case "PodDisruptionBudget":
		return &policy.PodDisruptionBudget{}
	case "HorizontalPodAutoscaler":
		return &autoscaling.HorizontalPodAutoscaler{}
	case "ServiceMonitor":
		return &monitoring.ServiceMonitor{}
	}
	return nil
}

// buildOverlay builds an overlay as kubectl apply -k does and decodes every object strictly.
func buildOverlay(t *testing.T, dir string) map[string][]any {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string][]any{}
	for _, r := range built.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		o := typeOf(r.GetKind())
		if o == nil {
			t.Fatalf("%s: no type for %s", dir, r.GetKind())
		}
		if err := yaml.UnmarshalStrict(text, o); err != nil {
			t.Errorf("%s %s: %v\n%s", dir, r.GetKind(), err, text)
		}
		objects[r.GetKind()] = append(objects[r.GetKind()], o)
	}
	return objects
}

func TestKubernetes_OverlaysBuildAndDecodeStrictly(t *testing.T) {
	want := []string{"ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Job", "PodDisruptionBudget", "Service"}
	for dir, more := range map[string][]string{
		base: nil, "../kubernetes/overlays/local": {"Secret"}, "../kubernetes/overlays/production": {"ServiceMonitor"},
	} {
		objects := buildOverlay(t, dir)
		for _, kind := range append(slices.Clone(want), more...) {
			if len(objects[kind]) == 0 {
				t.Errorf("%s has no %s", dir, kind)
			}
		}
	}
}

func TestKubernetes_PartsFitTogether(t *testing.T) {
	objects := buildOverlay(t, "../kubernetes/overlays/production")
	d := objects["Deployment"][0].(*apps.Deployment)
	pod := d.Spec.Template
	for what, selector := range map[string]map[string]string{
		"Service":             objects["Service"][0].(*core.Service).Spec.Selector,
		"Deployment":          d.Spec.Selector.MatchLabels,
		"PodDisruptionBudget": objects["PodDisruptionBudget"][0].(*policy.PodDisruptionBudget).Spec.Selector.MatchLabels,
	} {
		if len(selector) == 0 {
			t.Errorf("the selector of the %s is empty", what)
		}
		for name, value := range selector {
			if pod.Labels[name] != value {
				t.Errorf("the selector of the %s does not match the pods", what)
			}
		}
	}
	if target := objects["HorizontalPodAutoscaler"][0].(*autoscaling.HorizontalPodAutoscaler).Spec.ScaleTargetRef; target.
		Name != d.Name || d.Spec.Replicas != nil {
		t.Errorf("the autoscaler scales %s, and the Deployment has replicas %v", target.Name, d.Spec.Replicas)
	}
	env := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	if env["GOMEMLIMIT"] != "920MiB" || pod.Spec.Containers[0].Resources.Limits.Memory().String() != "1Gi" {
		t.Errorf("GOMEMLIMIT is %s of %s", env["GOMEMLIMIT"], pod.Spec.Containers[0].Resources.Limits.Memory())
	}
	job := objects["Job"][0].(*batch.Job).Spec.Template.Spec
	name := objects["ConfigMap"][0].(*core.ConfigMap).Name
	if got := job.Volumes[0].ConfigMap.Name; got != name {
		t.Errorf("the job mounts the ConfigMap %s, not %s", got, name)
	}
	monitored := objects["ServiceMonitor"][0].(*monitoring.ServiceMonitor).Spec
	port := objects["Service"][0].(*core.Service).Spec.Ports[0].Name
	if monitored.Endpoints[0].Port != port {
		t.Errorf("the ServiceMonitor scrapes port %s, not %s", monitored.Endpoints[0].Port, port)
	}
	if native := monitored.ScrapeNativeHistograms; native == nil || !*native {
		t.Error("the ServiceMonitor leaves out the native histograms")
	}
}

// A node reads the addresses of its stores from files of the secret, under names that the overlay
// for trying it out fills in.
func TestKubernetes_SecretsAreFiles(t *testing.T) {
	objects := buildOverlay(t, "../kubernetes/overlays/local")
	secret := objects["Secret"][0].(*core.Secret)
	for _, o := range objects["Deployment"] {
		pod := o.(*apps.Deployment).Spec.Template.Spec
		if o.(*apps.Deployment).Name != "sluice" {
			continue
		}
		mounted := map[string]string{} // directory by volume
		for _, m := range pod.Containers[0].VolumeMounts {
			mounted[m.Name] = m.MountPath
		}
		dir := ""
		for _, v := range pod.Volumes {
			if v.Secret != nil && v.Secret.SecretName == secret.Name {
				dir = mounted[v.Name]
			}
		}
		files := 0
		for _, e := range pod.Containers[0].Env {
			if _, file := secret.Data[filepath.Base(e.Value)]; strings.HasSuffix(e.Name, "_URL_FILE") {
				files++
				if !file || filepath.Dir(e.Value) != dir {
					t.Errorf("%s is %s; the secret is mounted at %q and has no such file", e.Name, e.Value, dir)
				}
			}
		}
		if files != 2 || len(pod.Containers[0].EnvFrom) > 0 {
			t.Errorf("%d files of addresses, and variables from %v", files, pod.Containers[0].EnvFrom)
		}
	}
}

// The probes ask what the service serves.
func TestKubernetes_ProbesAskPathsOfTheService(t *testing.T) {
	api, err := os.ReadFile("../../../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	container := buildOverlay(t, base)["Deployment"][0].(*apps.Deployment).Spec.Template.Spec.Containers[0]
	for name, probe := range map[string]*core.Probe{
		"/readyz": container.ReadinessProbe, "/readyz ": container.StartupProbe, "/livez": container.LivenessProbe,
	} {
		want := strings.TrimSpace(name)
		if probe == nil || probe.HTTPGet.Path != want || !strings.Contains(string(api), "\n  "+want+":\n") {
			t.Errorf("a probe asks %+v, want %s", probe, want)
		}
	}
}

func TestKubernetes_AMistakeIsFound(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(base, "deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	bad := strings.Replace(string(text), "terminationGracePeriodSeconds", "terminationGracePeriod", 1)
	if err := yaml.UnmarshalStrict([]byte(bad), &apps.Deployment{}); err == nil {
		t.Error("a field that does not exist is accepted")
	}
}
