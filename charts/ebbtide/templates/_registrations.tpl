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
