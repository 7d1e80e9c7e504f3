{{/* The release's name, which all objects begin with. */}}
{{- define "chamber.name" -}}
{{ contains "chamber" .Release.Name | ternary .Release.Name (printf "%s-chamber" .Release.Name) | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* The agent's name: the release's where that says what it is. */}}
{{- define "chamber.agentName" -}}
{{ hasSuffix "agent" .Release.Name | ternary .Release.Name (printf "%s-agent" (include "chamber.name" .)) | trunc 50 }}
{{- end }}

{{- define "chamber.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
{{- end }}

{{/* Labels that select the pods of a part: (list . "agent"). */}}
{{- define "chamber.selector" -}}
app.kubernetes.io/name: chamber
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "chamber.labels" -}}
{{ include "chamber.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name (index . 0).Chart.Version }}
{{- end }}

{{/* What every pod is: a user without rights, on a file system that cannot be written. */}}
{{- define "chamber.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ . }}
  runAsGroup: {{ . }}
  fsGroup: {{ . }}
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "chamber.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "chamber.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Replicas of a part on different nodes, where there are several: (list . "agent"). */}}
{{- define "chamber.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "chamber.selector" . | nindent 8 }}
{{- end }}
