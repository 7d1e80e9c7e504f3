{{/* What all of the server's processes share: (list . "web"). Secrets come as files, into a folder of each pod. */}}
{{- define "chamber.server.environment" -}}
{{- $values := (index . 0).Values.server -}}
- {name: CHAMBER_SECRET_KEY_FILE, value: /run/secrets/chamber/secret_key}
{{- with $values.database }}
{{- if .url }}
- {name: CHAMBER_DATABASE, value: {{ .url | quote }}}
{{- else }}
- {name: CHAMBER_DATABASE_FILE, value: /run/secrets/chamber/database_url}
{{- end }}
{{- if .passwordKey }}
- {name: CHAMBER_DATABASE_PASSWORD_FILE, value: /run/secrets/chamber/database_password}
{{- end }}
- {name: CHAMBER_DATABASE_CONNECTIONS, value: {{ .connections | quote }}}
{{- end }}
{{- if $values.redis.url }}
- {name: CHAMBER_REDIS, value: {{ $values.redis.url | quote }}}
{{- else }}
- {name: CHAMBER_REDIS_FILE, value: /run/secrets/chamber/redis_url}
{{- end }}
{{- if $values.redis.passwordKey }}
- {name: CHAMBER_REDIS_PASSWORD_FILE, value: /run/secrets/chamber/redis_password}
{{- end }}
{{- if $values.metrics.tokenKey }}
- {name: CHAMBER_METRICS_TOKEN_FILE, value: /run/secrets/chamber/metrics_token}
{{- end }}
{{- if $values.publicUrl }}
- {name: CHAMBER_PUBLIC_URL, value: {{ $values.publicUrl | quote }}}
{{- end }}
{{- with $values.mail }}
{{- if .urlKey }}
- {name: CHAMBER_MAIL_URL_FILE, value: /run/secrets/chamber/mail_url}
{{- end }}
{{- if .from }}
- {name: CHAMBER_MAIL_FROM, value: {{ .from | quote }}}
{{- end }}
{{- end }}
{{- if $values.encryption.keysKey }}
- {name: CHAMBER_ENCRYPTION_KEYS_FILE, value: /run/secrets/chamber/encryption_keys}
{{- end }}
{{- if $values.credentials.keyKey }}
- {name: CHAMBER_CREDENTIALS_KEY_FILE, value: /run/secrets/chamber/credentials_key}
{{- end }}
{{- if $values.audit.keyKey }}
- {name: CHAMBER_AUDIT_KEY_FILE, value: /run/secrets/chamber/audit_key}
{{- end }}
{{- if $values.audit.keysBeforeKey }}
- {name: CHAMBER_AUDIT_KEYS_BEFORE_FILE, value: /run/secrets/chamber/audit_keys_before}
{{- end }}
{{- if $values.signIn.providersKey }}
- {name: CHAMBER_IDENTITY_PROVIDERS_FILE, value: /run/secrets/chamber/identity_providers}
{{- end }}
{{- $hosts := $values.hosts }}
{{- if $values.metrics.tokenKey }}
{{- $hosts = append $hosts (include "chamber.webAddress" (index . 0)) }}
{{- end }}
- {name: CHAMBER_HOSTS, value: {{ join "," $hosts | quote }}}
- {name: CHAMBER_TRUSTED_PROXIES, value: {{ join "," $values.trustedProxies | quote }}}
- {name: CHAMBER_IMAGE, value: {{ include "chamber.image" (index . 0) }}}
- {name: CHAMBER_LISTEN_HOST, value: 0.0.0.0}
- {name: CHAMBER_LOG_FORMAT, value: {{ $values.logFormat }}}
- {name: CHAMBER_LOG_LEVEL, value: {{ $values.logLevel }}}
{{- range $name, $value := $values.settings }}
- {name: CHAMBER_{{ $name | snakecase | upper }}, value: {{ kindIs "slice" $value | ternary (join "," $value) (toString $value) | quote }}}
{{- end }}
{{- include "chamber.commonEnvironment" . }}
{{- end }}

{{/* Where Prometheus finds the web part's pods. */}}
{{- define "chamber.webAddress" -}}
{{ include "chamber.name" . }}-web.{{ .Release.Namespace }}.svc
{{- end }}

{{- define "chamber.server.volumes" -}}
{{- $values := (index . 0).Values.server -}}
- name: secrets
  secret:
    secretName: {{ $values.secret }}
    defaultMode: 0440
    items:
      - {key: secret_key, path: secret_key}
      {{- if not $values.database.url }}
      - {key: database_url, path: database_url}
      {{- end }}
      {{- with $values.database.passwordKey }}
      - {key: {{ . }}, path: database_password}
      {{- end }}
      {{- if not $values.redis.url }}
      - {key: redis_url, path: redis_url}
      {{- end }}
      {{- with $values.redis.passwordKey }}
      - {key: {{ . }}, path: redis_password}
      {{- end }}
      {{- with $values.metrics.tokenKey }}
      - {key: {{ . }}, path: metrics_token}
      {{- end }}
      {{- with $values.encryption.keysKey }}
      - {key: {{ . }}, path: encryption_keys}
      {{- end }}
      {{- with $values.credentials.keyKey }}
      - {key: {{ . }}, path: credentials_key}
      {{- end }}
      {{- with $values.audit.keyKey }}
      - {key: {{ . }}, path: audit_key}
      {{- end }}
      {{- with $values.audit.keysBeforeKey }}
      - {key: {{ . }}, path: audit_keys_before}
      {{- end }}
      {{- with $values.signIn.providersKey }}
      - {key: {{ . }}, path: identity_providers}
      {{- end }}
      {{- with $values.mail.urlKey }}
      - {key: {{ . }}, path: mail_url}
      {{- end }}
- name: tmp
  emptyDir: {sizeLimit: 256Mi}
{{- include "chamber.commonVolumes" . }}
{{- end }}

{{/* One container of the image: (list . "web" (list "chamber" "serve" …)). */}}
{{- define "chamber.server.container" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
image: {{ include "chamber.image" $root }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
command: {{ index . 2 | toJson }}
env: {{- include "chamber.server.environment" . | nindent 2 }}
{{- include "chamber.environmentFrom" . }}
{{ include "chamber.containerSecurity" . }}
volumeMounts:
  - {name: secrets, mountPath: /run/secrets/chamber, readOnly: true}
  - {name: tmp, mountPath: /tmp}
  {{- include "chamber.commonMounts" . | nindent 2 }}
{{- end }}

{{- define "chamber.server.pod" -}}
automountServiceAccountToken: false
{{ include "chamber.podSpec" (list (index . 0) (index . 1) 10001) }}
volumes: {{- include "chamber.server.volumes" . | nindent 2 }}
{{- end }}
