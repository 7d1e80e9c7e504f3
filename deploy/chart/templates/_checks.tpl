{{/*
What the values say of a part's pods must not meet what the chart says of them: the API server would take some objects of
the release and refuse others. (list . "web" ENVIRONMENT VOLUMES MOUNTS), as the part's pods have them.
*/}}
{{- define "chamber.checkPods" -}}
{{- $pods := include "chamber.pods" . | fromYaml -}}
{{- $part := index . 1 -}}
{{- $where := eq $part "agent" | ternary "agent.pods" (printf "server.pods, or server.%s.pods," $part) -}}
{{- $of := list $where "extraEnv" "name" (index . 2) ($pods.extraEnv | default list) -}}
{{- include "chamber.checkTwice" $of -}}
{{- $volumes := index . 3 -}}
{{- include "chamber.checkTwice" (list $where "extraVolumes" "name" $volumes ($pods.extraVolumes | default list)) -}}
{{- $mounts := $pods.extraVolumeMounts | default list -}}
{{- include "chamber.checkTwice" (list $where "extraVolumeMounts" "mountPath" (index . 4) $mounts) -}}
{{- $names := list -}}
{{- range $volumes }}{{ $names = append $names .name }}{{ end -}}
{{- range $mounts -}}
{{- if not (has .name $names) -}}
{{- fail (printf "%s mounts the volume %q (extraVolumeMounts), which is not there: name it in extraVolumes." $where .name) -}}
{{- end -}}
{{- end -}}
{{- $own := include "chamber.labels" . | fromYaml -}}
{{- range $key, $_ := $pods.labels -}}
{{- if hasKey $own $key -}}
{{- fail (printf "%s sets the label %s, by which the chart knows its pods; choose another name." $where $key) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Refuses what is named twice: (list WHERE LIST KEY ALL THEIRS), of all that a pod has what the values added. */}}
{{- define "chamber.checkTwice" -}}
{{- $where := index . 0 -}}{{- $list := index . 1 -}}{{- $key := index . 2 -}}
{{- $theirs := dict -}}
{{- range index . 4 -}}
{{- $name := get . $key -}}
{{- if hasKey $theirs $name -}}{{- fail (printf "%s names %s twice (%s)." $where $name $list) -}}{{- end -}}
{{- $_ := set $theirs $name true -}}
{{- end -}}
{{- $seen := dict -}}
{{- range index . 3 -}}
{{- $name := get . $key -}}
{{- if hasKey $seen $name -}}
{{- fail (printf "%s names %s (%s), which the chart sets itself: see whether it has a value of its own." $where $name $list) -}}
{{- end -}}
{{- $_ := set $seen $name true -}}
{{- end -}}
{{- end }}
