{{/* The release's name, which all objects begin with. */}}
{{- define "chamber.name" -}}
{{ contains "chamber" .Release.Name | ternary .Release.Name (printf "%s-chamber" .Release.Name) | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* The agent's name: the release's where that says what it is. */}}
{{- define "chamber.agentName" -}}
{{ hasSuffix "agent" .Release.Name | ternary .Release.Name (printf "%s-agent" (include "chamber.name" .)) | trunc 50 }}
{{- end }}

{{- define "chamber.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ printf "%s@%s" .repository .digest | quote }}{{ else }}{{ printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) | quote }}{{ end }}
{{- end }}
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

{{- define "chamber.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}
