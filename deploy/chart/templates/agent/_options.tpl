{{/* Options of `chamber agent` that say where workloads run and how it looks at the cluster. */}}
{{- define "chamber.agent.options" -}}
{{- with .Values.agent -}}
- --in-cluster
- --namespace
- {{ .workloadNamespace }}
- --log-format
- {{ .logFormat }}
- --log-level
- {{ .logLevel }}
{{- with .cluster }}
- --cluster
- {{ . | quote }}
{{- end }}
{{- with .partitionLabel }}
- --partition-label
- {{ . | quote }}
{{- end }}
{{- range $key, $value := .nodeSelector }}
- --node-selector
- {{ printf "%s=%s" $key $value | quote }}
{{- end }}
{{- range $option, $values := dict "--exporters" .exporters "--gpu-resource" .gpuResources "--gpu-driver" .gpuDrivers }}
{{- range $values }}
- {{ $option }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- range default (list "none") .disruption.budgets }}
- --disruption-budgets
- {{ . }}
{{- end }}
{{- range default (list "none") .disruption.annotations }}
- --do-not-disrupt
- {{ . }}
{{- end }}
{{- range $driver, $class := .deviceClasses }}
- --device-class
- {{ printf "%s=%s" $driver $class | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "chamber.agent.environment" -}}
- {name: CHAMBER_URL, value: {{ (index . 0).Values.agent.url | quote }}}
- {name: CHAMBER_WORKLOADS_ROLE, value: {{ include "chamber.agentName" (index . 0) }}-workloads}
{{- include "chamber.commonEnvironment" . }}
{{- end }}

{{/* Ports at which it reaches the API server, and Chamber, perhaps by a proxy; with commas between. */}}
{{- define "chamber.agent.ports" -}}
{{- $url := urlParse .Values.agent.url }}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (eq $url.scheme "https" | ternary "443" "80") | int }}
{{- $ports := append .Values.agent.apiServerPorts $port }}
{{- range list .Values.httpProxy.http .Values.httpProxy.https }}
{{- if . }}
{{- $ports = append $ports (regexFind ":[0-9]+$" (urlParse .).host | trimPrefix ":" | default "80" | int) }}
{{- end }}
{{- end }}
{{- range $index, $each := $ports | uniq }}{{ if $index }},{{ end }}{{ int $each }}{{ end }}
{{- end }}
