{{/* What the pods of all components have in common. Arguments: a list of the context, the component, its values. */}}

{{- define "ebbtide.pod.metadata" -}}
{{- $root := index . 0 -}}
labels:
  {{- include "ebbtide.labels" (list $root (index . 1)) | nindent 2 }}
annotations:
  checksum/config: {{ include "ebbtide.toml" $root | sha256sum }}
  {{- with (index . 2).podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The token is mounted here and not by the ServiceAccount: nothing else that uses it gets one. */}}
{{- define "ebbtide.pod.spec" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
serviceAccountName: {{ include (printf "ebbtide.%s" (index . 1)) $root }}
automountServiceAccountToken: true
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- include "ebbtide.pod.security" . | nindent 0 }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "ebbtide.pod.security" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "ebbtide.container.security" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{/* Softly: a zone that is at risk must not be one that pods have to be in. */}}
{{- define "ebbtide.pod.spread" -}}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "ebbtide.selector" $ | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end -}}

{{- define "ebbtide.container" -}}
{{- $root := index . 0 -}}
image: {{ include "ebbtide.image" $root }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
{{- include "ebbtide.container.security" . | nindent 0 }}
resources:
  {{- toYaml (index . 2).resources | nindent 2 }}
{{- end -}}

{{- define "ebbtide.args.log" -}}
- --log-format={{ .Values.logFormat }}
- --log-level={{ .Values.logLevel }}
{{- end -}}

{{- define "ebbtide.env" -}}
- name: EBBTIDE_CONFIG
  value: /etc/ebbtide/ebbtide.toml
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end -}}

{{- define "ebbtide.env.extra" -}}
{{- with (index . 2).extraEnv }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{/* `/tmp` is the only place that can be written to. */}}
{{- define "ebbtide.mounts" -}}
- name: config
  mountPath: /etc/ebbtide/ebbtide.toml
  subPath: ebbtide.toml
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- end -}}

{{- define "ebbtide.volumes" -}}
- name: config
  configMap:
    name: {{ include "ebbtide.config" . }}
- name: tmp
  emptyDir:
    sizeLimit: 16Mi
{{- end -}}

{{/* Argument: the place in the order of what a test needs. */}}
{{- define "ebbtide.test.hook" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}
