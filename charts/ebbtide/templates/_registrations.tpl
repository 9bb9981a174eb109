{{/*
Whom the API server asks us about: one configuration for each way in, because an entry that goes away from a shared one
would stay behind as a torso, part of which is the reconciler's (the CA bundle).
*/}}

{{- define "ebbtide.registrations" -}}
pods:
  values: pods
  rule: {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods], scope: Namespaced}
  objects:
    - {key: ebbtide/guard, operator: NotIn, values: [disabled]}
  # A label selector cannot say "or", so the API server is given the condition; it is not sent what it can leave out.
  conditions:
    - name: pool-or-guard
      expression: >-
        has(object.metadata.labels) && ("ebbtide/pool" in object.metadata.labels ||
        ("ebbtide/guard" in object.metadata.labels && object.metadata.labels["ebbtide/guard"] == "enabled"))
guarded-pods:
  values: guardedPods
  rule: {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods], scope: Namespaced}
  namespaces: {ebbtide/guard: enabled}
  objects:
    - {key: ebbtide/guard, operator: NotIn, values: [disabled]}
stateful-sets:
  values: statefulSets
  rule: {operations: [CREATE, UPDATE], apiGroups: [apps], apiVersions: [v1], resources: [statefulsets], scope: Namespaced}
  objects:
    - {key: ebbtide/pool, operator: Exists}
{{- end -}}

{{/* Names of the configurations, as JSON: those that are switched off, too. */}}
{{- define "ebbtide.registrations.names" -}}
{{- $names := list -}}
{{- range $name, $_ := include "ebbtide.registrations" . | fromYaml -}}
{{- $names = append $names (printf "%s-%s" (include "ebbtide.fullname" $) $name) -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{/*
Whether a way in is on. Arguments: a list of the context and its name in the values. Values of a release that is older
than the switch (`helm upgrade --reuse-values`) do not have it, and had the way in.
*/}}
{{- define "ebbtide.registered" -}}
{{- if dig (index . 1) "enabled" true (index . 0).Values.webhook -}}true{{- end -}}
{{- end -}}

{{/* Namespaces whose objects are never sent to the webhook, as JSON. */}}
{{- define "ebbtide.excluded" -}}
{{- concat (list "kube-system" .Release.Namespace) .Values.webhook.excludedNamespaces | uniq | toJson -}}
{{- end -}}

{{/*
Where `helm test` creates its pod: a namespace that is there and is sent to the webhook. That of the workers, once there
are any; else one that every cluster has.
*/}}
{{- define "ebbtide.test.namespace" -}}
{{- $excluded := include "ebbtide.excluded" . | fromJsonArray -}}
{{- $there := list "default" "kube-public" -}}
{{- if include "ebbtide.workers.run" . -}}
{{- $there = prepend $there (include "ebbtide.workers.namespace" .) -}}
{{- end -}}
{{- range $excluded -}}
{{- $there = without $there . -}}
{{- end -}}
{{- $namespace := .Values.tests.namespace | default (first $there) -}}
{{- if not $namespace -}}
{{- fail "tests.namespace has to name a namespace: those that every cluster has are among webhook.excludedNamespaces" -}}
{{- end -}}
{{- if has $namespace $excluded -}}
{{- fail (printf "tests.namespace is %s, whose pods are never sent to the webhook" $namespace) -}}
{{- end -}}
{{- $namespace -}}
{{- end -}}
