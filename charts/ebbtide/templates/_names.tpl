{{/* Names and labels. `app.kubernetes.io/name` is fixed: the leader selects the pods of the webhook by it. */}}

{{- define "ebbtide.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "ebbtide" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-ebbtide" (.Release.Name | trunc 32 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{- define "ebbtide.webhook" -}}{{ include "ebbtide.fullname" . }}-webhook{{- end -}}
{{- define "ebbtide.reconciler" -}}{{ include "ebbtide.fullname" . }}-reconciler{{- end -}}
{{- define "ebbtide.agent" -}}{{ include "ebbtide.fullname" . }}-agent{{- end -}}
{{- define "ebbtide.config" -}}{{ include "ebbtide.fullname" . }}-config{{- end -}}
{{- define "ebbtide.lease" -}}{{ include "ebbtide.reconciler" . }}{{- end -}}

{{/* The Secret that the webhook's certificate is in. Each mode has its own, so that one mode never meets another's. */}}
{{- define "ebbtide.secret" -}}
{{- if eq .Values.certificates.mode "existing" -}}
{{- required "certificates.existingSecret names the Secret of mode existing" .Values.certificates.existingSecret -}}
{{- else if eq .Values.certificates.mode "cert-manager" -}}
{{- include "ebbtide.webhook" . }}-cert
{{- else -}}
{{- include "ebbtide.webhook" . }}-tls
{{- end -}}
{{- end -}}

{{- define "ebbtide.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Argument: a list of the context and a component; without a component the labels of what belongs to all. */}}
{{- define "ebbtide.labels" -}}
{{- $root := index . 0 -}}
{{- with $root.Values.commonLabels }}
{{- toYaml . }}
{{ end -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: ebbtide
{{ include "ebbtide.selector" . }}
{{- end -}}

{{- define "ebbtide.selector" -}}
app.kubernetes.io/name: ebbtide
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- with index . 1 }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}
