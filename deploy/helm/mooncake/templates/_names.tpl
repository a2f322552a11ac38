{{- define "mooncake.name" -}}
{{- if contains "mooncake" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-mooncake" .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "mooncake.selector" -}}
app.kubernetes.io/name: mooncake
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mooncake.labels" -}}
{{ include "mooncake.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "mooncake.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The masters, each by its own name, with this port. */}}
{{- define "mooncake.masters" -}}
{{- $name := include "mooncake.name" .root }}
{{- range $number := until (int .root.Values.masters.replicas) }}
{{- if $number }},{{ end }}{{ $name }}-master-{{ $number }}.{{ $name }}-masters.{{ $.root.Release.Namespace }}.svc:{{ $.port }}
{{- end }}
{{- end }}

{{- define "mooncake.auth.env" -}}
{{- if .Values.auth.existingSecret }}
- name: MOONCAKE_AUTH_TOKEN_FILE
  value: /etc/mooncake/token
{{- end }}
{{- end }}

{{- define "mooncake.auth.mount" -}}
{{- if .Values.auth.existingSecret }}
- name: auth
  mountPath: /etc/mooncake
  readOnly: true
{{- end }}
{{- end }}

{{- define "mooncake.auth.volume" -}}
{{- if .Values.auth.existingSecret }}
- name: auth
  secret:
    secretName: {{ .Values.auth.existingSecret }}
    items: [{key: token, path: token}]
    defaultMode: 0440
{{- end }}
{{- end }}

{{- define "mooncake.pod.security" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "mooncake.pod.names" -}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- end }}

{{- /* Pods of one role keep to different hosts where they can. */}}
{{- define "mooncake.apart" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "mooncake.selector" .root | nindent 12 }}
            app.kubernetes.io/component: {{ .component }}
{{- end }}
