{{/* The configuration file, and what of it other templates need. */}}

{{- define "ebbtide.workers.run" -}}
{{- if (index .Values.config "worker-scaler").run -}}true{{- end -}}
{{- end -}}

{{/* Whether load data is answered: in a dry run nobody listens for it. */}}
{{- define "ebbtide.front" -}}
{{- if and (include "ebbtide.workers.run" .) (not .Values.reconciler.dryRun) -}}true{{- end -}}
{{- end -}}

{{- define "ebbtide.workers.namespace" -}}
{{- (index .Values.config "worker-scaler").namespace -}}
{{- end -}}

{{/* Whether the certificate comes as files, from a Secret that somebody else fills. */}}
{{- define "ebbtide.files" -}}
{{- if ne .Values.certificates.mode "self-managed" -}}true{{- end -}}
{{- end -}}

{{/*
All tables, with what the chart wires itself. The configurations to put the CA into are those of this release: they
are the only ones that the reconciler may write.
*/}}
{{- define "ebbtide.settings" -}}
{{- $workers := include "ebbtide.workers.namespace" . -}}
{{- if eq $workers .Release.Namespace -}}
{{- fail (printf "config.worker-scaler.namespace is %s, which is the namespace of the release: its pods are never sent to the webhook, so that workers there would not be kept out of blocked zones. Install ebbtide into a namespace of its own." $workers) -}}
{{- end -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "namespace" .Release.Namespace -}}
{{- $_ := set (index $config "worker-scaler") "listen" "0.0.0.0:19500" -}}
{{- $_ := set (index $config "leader-election") "lease-name" (include "ebbtide.lease" .) -}}
{{- $_ := set $config "observability" (dict "listen" "0.0.0.0:8080") -}}
{{- $webhook := index $config "webhook" -}}
{{- $_ := set $webhook "listen" "0.0.0.0:8443" -}}
{{- $_ := set $webhook "health-listen" "0.0.0.0:8081" -}}
{{- $certs := index $config "certs" -}}
{{- $_ := set $certs "mode" (ternary "files" "self-managed" (eq (include "ebbtide.files" .) "true")) -}}
{{- $_ := set $certs "service-name" (include "ebbtide.webhook" .) -}}
{{- $_ := set $certs "webhook-configuration-selector" (printf "ebbtide/ca-injection=enabled,app.kubernetes.io/instance=%s" .Release.Name) -}}
{{- if not (include "ebbtide.files" .) -}}
{{- $_ := set $certs "secret-name" (include "ebbtide.secret" .) -}}
{{- end -}}
{{- with .Values.webhook.url -}}
{{- $host := (urlParse .).hostname -}}
{{- $_ := set $certs "extra-sans" (append (index $certs "extra-sans" | default list) $host | uniq) -}}
{{- end -}}
{{- toJson $config -}}
{{- end -}}

{{- define "ebbtide.toml" -}}
{{- include "ebbtide.toml.table" (list "" (include "ebbtide.settings" . | fromJson)) | trim }}
{{ end -}}

{{/* Argument: a list of the table's dotted name and the table. Values come before tables, as TOML wants them. */}}
{{- define "ebbtide.toml.table" -}}
{{- $name := index . 0 -}}
{{- $table := index . 1 -}}
{{- range $key, $value := $table }}
{{- if not (kindIs "map" $value) }}
{{ $key }} = {{ include "ebbtide.toml.value" (list $key $value) }}
{{- end }}
{{- end }}
{{- range $key, $value := $table }}
{{- if and (kindIs "map" $value) $value }}
{{- $path := ternary $key (printf "%s.%s" $name $key) (eq $name "") }}

[{{ $path }}]
{{- include "ebbtide.toml.table" (list $path $value) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A value on one line. JSON's texts, numbers and booleans are TOML's; tables of a list are written inline. */}}
{{- define "ebbtide.toml.value" -}}
{{- $key := index . 0 -}}
{{- $value := index . 1 -}}
{{- if kindIs "slice" $value -}}
[{{- range $index, $each := $value }}{{ if $index }}, {{ end }}{{ include "ebbtide.toml.value" (list "" $each) }}{{- end -}}]
{{- else if kindIs "map" $value -}}
{ {{- range $index, $each := keys $value | sortAlpha }}{{ if $index }},{{ end }} {{ $each }} = {{ include "ebbtide.toml.value" (list $each (index $value $each)) }}{{- end }} }
{{- else if and (eq $key "cluster-id") (kindIs "string" $value) -}}
{{- /* Larger than what YAML's numbers keep exactly: written as text, meant as a number. */ -}}
{{- $value -}}
{{- else -}}
{{- toJson $value -}}
{{- end -}}
{{- end -}}

{{/* Argument: a duration of the configuration, a number of seconds or a text such as "1h30m"; whole seconds, rounded up. */}}
{{- define "ebbtide.seconds" -}}
{{- $units := dict "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ms|h|m|s)" (ternary . (printf "%vs" .) (kindIs "string" .)) -1 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- $sum = addf $sum (mulf (trimSuffix $unit . | float64) (get $units $unit)) -}}
{{- end -}}
{{- ceil $sum | int -}}
{{- end -}}
