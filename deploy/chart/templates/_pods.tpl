{{/* What the values say of a part's pods, as YAML: (list . "web"). A part's own word goes before that of all. */}}
{{- define "chamber.pods" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- if eq $part "agent" -}}
{{- toYaml $root.Values.agent.pods -}}
{{- else -}}
{{- toYaml (mergeOverwrite (deepCopy $root.Values.server.pods) (deepCopy (index $root.Values.server $part).pods)) -}}
{{- end -}}
{{- end }}

{{/* Labels and annotations of a part's pods: (list . "web" (dict "checksum/configuration" "…")). */}}
{{- define "chamber.podMetadata" -}}
{{- $pods := include "chamber.pods" . | fromYaml -}}
labels: {{- include "chamber.labels" . | nindent 2 }}
{{- with $pods.labels }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $annotations := merge (dict) (index . 2) ($pods.annotations | default dict) }}
{{- with $annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Who its pods are and where they run: (list . "web" 10001), the user's number last. */}}
{{- define "chamber.podSpec" -}}
{{- $root := index . 0 -}}
{{- $pods := include "chamber.pods" . | fromYaml -}}
{{- $user := index . 2 -}}
{{- $strict := dict "runAsNonRoot" true "runAsUser" $user "runAsGroup" $user "fsGroup" $user "seccompProfile" (dict "type" "RuntimeDefault") -}}
enableServiceLinks: false
securityContext: {{- toYaml (mergeOverwrite $strict ($pods.podSecurityContext | default dict)) | nindent 2 }}
{{- include "chamber.pullSecrets" $root }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with index $pods $key }}
{{ $key }}: {{ if kindIs "string" . }}{{ . | quote }}{{ else }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
{{- end }}
topologySpreadConstraints:
{{- if hasKey $pods "topologySpreadConstraints" }} {{ toYaml $pods.topologySpreadConstraints | nindent 2 }}
{{- else }}
  # Replicas on different nodes, where there are several.
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "chamber.selector" . | nindent 8 }}
{{- end }}
{{- end }}

{{/* A user without rights, on a file system that cannot be written: (list . "web"). */}}
{{- define "chamber.containerSecurity" -}}
{{- $pods := include "chamber.pods" . | fromYaml -}}
{{- $strict := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
securityContext: {{- toYaml (mergeOverwrite $strict ($pods.securityContext | default dict)) | nindent 2 }}
{{- end }}

{{/* Variables that the agent and all of the server's own processes have: (list . "web"). */}}
{{- define "chamber.commonEnvironment" -}}
{{- $values := (index . 0).Values -}}
{{- $pods := include "chamber.pods" . | fromYaml -}}
{{- with $values.authorities }}
{{- if or .configMap .secret }}
# OpenSSL looks here beside the image's own folder of certificates; libpq where the URL asks for verification.
- {name: SSL_CERT_FILE, value: /etc/chamber/authorities/{{ .key }}}
- {name: PGSSLROOTCERT, value: /etc/chamber/authorities/{{ .key }}}
{{- end }}
{{- end }}
{{- with $values.httpProxy }}
{{- if or .http .https }}
{{- $none := concat (list "localhost" "127.0.0.1" "::1" ".svc" ".cluster.local" "kubernetes.default.svc" "$(KUBERNETES_SERVICE_HOST)") .except | uniq | join "," }}
{{- range $name, $value := dict "HTTP_PROXY" .http "HTTPS_PROXY" .https "NO_PROXY" $none }}
{{- if $value }}
- {name: {{ $name }}, value: {{ $value | quote }}}
- {name: {{ lower $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- with $pods.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "chamber.environmentFrom" -}}
{{- $pods := include "chamber.pods" . | fromYaml -}}
{{- with $pods.extraEnvFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "chamber.commonMounts" -}}
{{- $values := (index . 0).Values -}}
{{- $pods := include "chamber.pods" . | fromYaml -}}
{{- if or $values.authorities.configMap $values.authorities.secret }}
- {name: authorities, mountPath: /etc/chamber/authorities, readOnly: true}
{{- end }}
{{- with $pods.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "chamber.commonVolumes" -}}
{{- $values := (index . 0).Values -}}
{{- $pods := include "chamber.pods" . | fromYaml -}}
{{- with $values.authorities }}
{{- if .configMap }}
- name: authorities
  configMap: {name: {{ .configMap }}, items: [{key: {{ .key }}, path: {{ .key }}}]}
{{- else if .secret }}
- name: authorities
  secret: {secretName: {{ .secret }}, items: [{key: {{ .key }}, path: {{ .key }}}], defaultMode: 0444}
{{- end }}
{{- end }}
{{- with $pods.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
