{{/* Argument: a list of the context and the component, whose ClusterRole, ServiceAccount and binding have one name. */}}
{{- define "ebbtide.clusterRoleBinding" -}}
{{- $root := index . 0 -}}
{{- $name := printf "%s-%s" (include "ebbtide.fullname" $root) (index . 1) -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels:
    {{- include "ebbtide.labels" (list $root (index . 1)) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ include (printf "ebbtide.%s" (index . 1)) $root }}
    namespace: {{ $root.Release.Namespace }}
{{- end -}}

{{/* Argument: a list of the context, the component, and the namespace of the Role. */}}
{{- define "ebbtide.roleBinding" -}}
{{- $root := index . 0 -}}
{{- $name := include (printf "ebbtide.%s" (index . 1)) $root -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ index . 2 }}
  labels:
    {{- include "ebbtide.labels" (list $root (index . 1)) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ $root.Release.Namespace }}
{{- end -}}
