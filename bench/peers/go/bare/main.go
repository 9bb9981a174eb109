// A webhook with nothing but Go's standard library: it decodes the few fields that it looks at, and writes the patch by
// hand. No metrics and no log.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"ebbtide/bench/peers/words"
)

type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitempty"`
	Response   *response `json:"response,omitempty"`
}

type request struct {
	UID       string `json:"uid"`
	Operation string `json:"operation"`
	Object    pod    `json:"object"`
}

type response struct {
	UID       string `json:"uid"`
	Allowed   bool   `json:"allowed"`
	PatchType string `json:"patchType,omitempty"`
	Patch     []byte `json:"patch,omitempty"`
}

type pod struct {
	Metadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		NodeName     string            `json:"nodeName"`
		NodeSelector map[string]string `json:"nodeSelector"`
		Tolerations  []toleration      `json:"tolerations"`
		Affinity     *struct {
			NodeAffinity *struct {
				Required *required `json:"requiredDuringSchedulingIgnoredDuringExecution"`
			} `json:"nodeAffinity"`
		} `json:"affinity"`
	} `json:"spec"`
}

type toleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"`
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"`
}

type required struct {
	Terms []term `json:"nodeSelectorTerms"`
}

type term struct {
	Expressions []expression      `json:"matchExpressions,omitempty"`
	Fields      []json.RawMessage `json:"matchFields,omitempty"`
}

type expression struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

var escape = strings.NewReplacer("~", "~0", "/", "~1")

// member adds a key to a map, or the map with that key where there is none yet.
func member(operations []operation, path string, known map[string]string, key, value string) []operation {
	if known == nil {
		return append(operations, operation{"add", path, map[string]string{key: value}})
	}
	return append(operations, operation{"add", path + "/" + escape.Replace(key), value})
}

func tolerates(tolerations []toleration, group string) bool {
	return slices.ContainsFunc(tolerations, func(each toleration) bool {
		return (each.Key == words.Group || each.Key == "" && each.Operator == "Exists") &&
			(each.Operator == "Exists" || each.Value == group) && (each.Effect == "" || each.Effect == "NoSchedule")
	})
}

// exclude adds the zones to each term of a pod's node affinity.
func exclude(operations []operation, found *pod, zones []string) []operation {
	const affinity = "/spec/affinity"
	const node = affinity + "/nodeAffinity"
	const path = node + "/requiredDuringSchedulingIgnoredDuringExecution"
	ours := expression{words.Zone, "NotIn", zones}
	whole := required{[]term{{Expressions: []expression{ours}}}}
	held := found.Spec.Affinity
	switch {
	case held == nil:
		value := map[string]any{"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": whole}}
		return append(operations, operation{"add", affinity, value})
	case held.NodeAffinity == nil:
		value := map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": whole}
		return append(operations, operation{"add", node, value})
	case held.NodeAffinity.Required == nil:
		return append(operations, operation{"add", path, whole})
	}
	for index, each := range held.NodeAffinity.Required.Terms {
		at := fmt.Sprintf("%s/nodeSelectorTerms/%d/matchExpressions", path, index)
		if len(each.Expressions) > 0 {
			operations = append(operations, operation{"add", at + "/-", ours})
		} else if len(each.Fields) > 0 {
			operations = append(operations, operation{"add", at, []expression{ours}})
		}
	}
	return operations
}

func mutate(found *pod, blocked map[string][]string) []operation {
	labels, group := found.Metadata.Labels, found.Metadata.Labels[words.NodeGroup]
	if labels[words.Pool] == "" || group == "" || found.Spec.NodeName != "" {
		return nil
	}
	operations := make([]operation, 0, 4)
	if _, selects := found.Spec.NodeSelector[words.Group]; !selects {
		operations = member(operations, "/spec/nodeSelector", found.Spec.NodeSelector, words.Group, group)
	}
	if !tolerates(found.Spec.Tolerations, group) {
		ours := toleration{words.Group, "Equal", group, "NoSchedule"}
		if found.Spec.Tolerations == nil {
			operations = append(operations, operation{"add", "/spec/tolerations", []toleration{ours}})
		} else {
			operations = append(operations, operation{"add", "/spec/tolerations/-", ours})
		}
	}
	if zones := blocked[group]; len(zones) > 0 {
		operations = exclude(operations, found, zones)
		named := strings.Join(zones, ",")
		operations = member(operations, "/metadata/annotations", found.Metadata.Annotations, words.BlockedZones, named)
	}
	return operations
}

func answer(body []byte, blocked map[string][]string) ([]byte, error) {
	var asked review
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	if asked.Request == nil {
		return nil, fmt.Errorf("the review has no request")
	}
	said := &response{UID: asked.Request.UID, Allowed: true}
	if asked.Request.Operation == "CREATE" {
		if operations := mutate(&asked.Request.Object, blocked); len(operations) > 0 {
			patch, err := json.Marshal(operations)
			if err != nil {
				return nil, err
			}
			said.PatchType, said.Patch = "JSONPatch", patch
		}
	}
	return json.Marshal(review{APIVersion: asked.APIVersion, Kind: asked.Kind, Response: said})
}

func main() {
	flags := words.Parse()
	http.HandleFunc("POST "+words.Path, func(writer http.ResponseWriter, asked *http.Request) {
		body := make([]byte, max(asked.ContentLength, 0))
		if _, err := io.ReadFull(asked.Body, body); err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		said, err := answer(body, flags.Blocked)
		if err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		writer.Header().Set("Content-Type", "application/json")
		_, _ = writer.Write(said)
	})
	pair := func(name string) string { return filepath.Join(flags.Certs, name) }
	address := fmt.Sprintf("127.0.0.1:%d", flags.Port)
	log.Fatal(http.ListenAndServeTLS(address, pair("tls.crt"), pair("tls.key"), nil))
}
