// Strandline-gitops says how GitOps tools read objects: Flux by kstatus, Argo CD by the health
// scripts of a ConfigMap, each with its own library. It knows nothing of what the objects mean.
//
//	strandline-gitops argocd-cm.yaml < objects.json
//
// It reads a JSON list of {"name", "object"} and writes one of {"name", "flux", "argo"}, in the
// same order. What a library refuses stands under "error". With "expressions" beside an object,
// as in a Kustomization's healthCheckExprs, Flux judges it by these.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	appv1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/argoproj/gitops-engine/pkg/health"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"
)

const (
	usage  = "usage: strandline-gitops CONFIGMAP < OBJECTS"
	prefix = "resource.customizations.health."
)

type question struct {
	Name        string                            `json:"name"`
	Object      json.RawMessage                   `json:"object"`
	Expressions *kustomize.HealthCheckExpressions `json:"expressions"`
}

type reading struct {
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
}

type answer struct {
	Name string  `json:"name"`
	Flux reading `json:"flux"`
	Argo reading `json:"argo"`
}

func main() {
	klog.LogToStderr(false) // Argo CD's engine logs what it also returns
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "strandline-gitops: "+err.Error())
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 1 {
		return fmt.Errorf("%s", usage)
	}
	overrides, err := readScripts(arguments[0])
	if err != nil {
		return err
	}
	var questions []question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		return fmt.Errorf("the objects are no list of name and object: %w", err)
	}
	answers := make([]answer, 0, len(questions))
	for _, each := range questions {
		// Numbers must become int64, as they do when they come from a server.
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(each.Object); err != nil {
			return fmt.Errorf("%s: %w", each.Name, err)
		}
		flux := askFlux(object, each.Expressions)
		answers = append(answers, answer{each.Name, flux, askArgo(object, overrides)})
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

// readScripts takes the health scripts from Argo CD's ConfigMap, as its settings do: a key names
// group and kind with an underscore between them, and no standard library comes along.
func readScripts(path string) (lua.ResourceHealthOverrides, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var config corev1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	overrides := lua.ResourceHealthOverrides{}
	for key, script := range config.Data {
		kind, isHealth := strings.CutPrefix(key, prefix)
		if isHealth {
			overrides[strings.Replace(kind, "_", "/", 1)] = appv1.ResourceOverride{HealthLua: script}
		}
	}
	return overrides, nil
}

func askFlux(
	object *unstructured.Unstructured, expressions *kustomize.HealthCheckExpressions,
) reading {
	compute := status.Compute
	if expressions != nil {
		evaluator, err := cel.NewStatusEvaluator(expressions)
		if err != nil {
			return reading{Error: err.Error()}
		}
		compute = func(object *unstructured.Unstructured) (*status.Result, error) {
			return evaluator.Evaluate(context.Background(), object)
		}
	}
	result, err := compute(object)
	if err != nil { // its poller goes on waiting
		return reading{Status: string(status.UnknownStatus), Message: err.Error()}
	}
	return reading{Status: string(result.Status), Message: result.Message}
}

func askArgo(object *unstructured.Unstructured, overrides lua.ResourceHealthOverrides) reading {
	result, err := health.GetResourceHealth(object, overrides)
	if err != nil {
		return reading{Error: err.Error()}
	}
	if result == nil {
		return reading{}
	}
	return reading{Status: string(result.Status), Message: result.Message}
}
