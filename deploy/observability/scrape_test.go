package observability

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"go.yaml.in/yaml/v3"
)

// scrapes is what the tests look at of a configuration of Prometheus.
type scrapes struct {
	RuleFiles     []string `yaml:"rule_files"`
	ScrapeConfigs []struct {
		JobName       string                       `yaml:"job_name"`
		StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		Relabel       []*relabel.Config            `yaml:"relabel_configs"`
	} `yaml:"scrape_configs"`
}

// load reads the first document of a file.
func load[T any](t *testing.T, path string) T {
	t.Helper()
	var v T
	if err := yaml.Unmarshal([]byte(read(t, path)), &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

func TestScrape_SampleCoversWhatAlertsName(t *testing.T) {
	config := load[scrapes](t, "prometheus.yml")
	var jobs []string
	for _, job := range config.ScrapeConfigs {
		jobs = append(jobs, job.JobName)
		if len(job.StaticConfigs) != 1 || len(job.StaticConfigs[0].Targets) == 0 {
			t.Errorf("%s has no target", job.JobName)
		}
	}
	if want := []string{"auth", "verifier", "proxy", "site"}; !slices.Equal(jobs, want) {
		t.Errorf("the jobs are %v, want %v", jobs, want)
	}
	for _, file := range append(config.RuleFiles, load[scrapes](t, "prometheus.kubernetes.yml").RuleFiles...) {
		read(t, file)
	}
}

func TestScrape_SampleReachesTheProgramsOfTheStack(t *testing.T) {
	stack := load[struct {
		Services map[string]struct {
			Environment map[string]any
			Networks    any
		}
	}](t, "../compose.production.yml")
	for _, job := range load[scrapes](t, "prometheus.yml").ScrapeConfigs[:3] {
		host, port, err := net.SplitHostPort(job.StaticConfigs[0].Targets[0])
		if err != nil || host != job.JobName {
			t.Fatalf("%s is scraped at %s", job.JobName, host)
		}
		program := stack.Services[host]
		listens := fmt.Sprint(program.Environment["ADMIN_ADDR"])
		if _, there := program.Environment["ADMIN_BIND"]; there { // its addresses in both networks, by the default of ADMIN_PORT
			listens = ":9080"
		}
		networks := fmt.Sprint(program.Networks)
		if listens != ":"+port || !strings.Contains(networks, "auth") && !strings.Contains(networks, "verifier") {
			t.Errorf("%s listens on %s in %v, and is scraped at %s", host, listens, program.Networks, port)
		}
	}
}

// deployment is what the tests look at of a Deployment of Kubernetes.
type deployment struct {
	Spec struct {
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Containers []struct{ Ports []struct{ Name string } }
			}
		}
	}
}

// targets are the jobs that Prometheus makes of a pod: one for each port that it
// keeps.
func targets(t *testing.T, d deployment, partOf string) (jobs []string) {
	t.Helper()
	rules := load[scrapes](t, "prometheus.kubernetes.yml").ScrapeConfigs[0].Relabel
	for _, rule := range rules {
		if err := rule.Validate(model.UTF8Validation); err != nil {
			t.Fatal(err)
		}
	}
	for _, port := range d.Spec.Template.Spec.Containers[0].Ports {
		target := labels.NewBuilder(labels.FromStrings(
			"__meta_kubernetes_pod_name", "pod-1",
			"__meta_kubernetes_pod_label_app_kubernetes_io_name", d.Spec.Template.Metadata.Labels["app.kubernetes.io/name"],
			"__meta_kubernetes_pod_label_app_kubernetes_io_part_of", partOf,
			"__meta_kubernetes_pod_container_port_name", port.Name,
		))
		if relabel.ProcessBuilder(target, rules...) {
			jobs = append(jobs, target.Get("job")+" at "+target.Get("instance")+" by "+port.Name)
		}
	}
	return jobs
}

func TestScrape_FindsThePodsAndNamesTheirJobs(t *testing.T) {
	kustomization := load[struct {
		Labels []struct{ Pairs map[string]string }
	}](t, "../kubernetes/base/kustomization.yaml")
	partOf := kustomization.Labels[0].Pairs["app.kubernetes.io/part-of"]
	for _, program := range []string{"auth", "verifier", "proxy"} {
		d := load[deployment](t, "../kubernetes/base/"+program+".yaml")
		if got, want := targets(t, d, partOf), []string{program + " at pod-1 by admin"}; !slices.Equal(got, want) {
			t.Errorf("%s: the targets are %q, want %q", program, got, want)
		}
		if got := targets(t, d, "another"); len(got) > 0 {
			t.Errorf("pods of others are scraped: %q", got)
		}
	}
}
