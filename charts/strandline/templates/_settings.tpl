{{/* The operator's flags: one for each of its settings. */}}
{{- define "strandline.flags" -}}
{{- range .Values.watchNamespaces }}
- --namespaces={{ . }}
{{- end }}
{{- range $name, $value := .Values.settings }}
{{- $flag := ternary "defaults-config-map" (kebabcase $name) (eq $name "defaultsConfigMap") }}
- {{ printf "--%s=%s" $flag (toString $value) | quote }}
{{- end }}
- --shutdown-grace={{ .Values.shutdownGraceSeconds }}
- --metrics-port={{ ternary .Values.metrics.port 0 .Values.metrics.enabled }}
- --liveness-port={{ .Values.livenessPort }}
- {{ printf "--runtime-image=%s" (include "strandline.image" (dict "image" .Values.runtimeImage "chart" .Chart)) | quote }}
- {{ printf "--pod-security=%s" (toJson (default dict .Values.podSecurity)) | quote }}
- --account={{ .Release.Namespace }}/{{ include "strandline.serviceAccountName" . }}
- --read-nodes={{ .Values.rbac.readNodes }}
- --preflight={{ .Values.preflight.enabled }}
- --preflight-longest={{ .Values.preflight.longest }}
- {{ printf "--attempt-network=%s" (include "strandline.attemptNetwork" .) | quote }}
- {{ printf "--retry-defaults=%s" (toJson .Values.retryDefaults) | quote }}
{{- end }}

{{/* Who may reach the pods of attempts: the operator knows neither its own labels nor KubeRay's. */}}
{{- define "strandline.attemptNetwork" -}}
{{- with .Values.attemptNetworkPolicy }}
{{- if or .enabled .driverPort }}
{{- $home := dict "matchLabels" (dict "kubernetes.io/metadata.name" $.Release.Namespace) }}
{{- $labels := fromYaml (include "strandline.operatorLabels" $) }}
{{- $operator := dict "namespaceSelector" $home "podSelector" (dict "matchLabels" $labels) }}
{{- $ingress := .ingress }}
{{- if $.Values.metrics.podMonitor.enabled }}
{{- $port := dict "protocol" "TCP" "port" $.Values.settings.driverPort }}
{{- $ingress = append $ingress (dict "from" $.Values.metrics.podMonitor.from "ports" (list $port)) }}
{{- end }}
{{- $network := dict "operator" (list $operator) "kuberay" .kuberayFrom "ingress" $ingress "closes" (ternary "all" "driver" .enabled) }}
{{- if and .enabled .restrictEgress }}
{{- $network = set $network "egress" .egress }}
{{- /* A release from before has no such value. */}}
{{- if not (kindIs "invalid" .dns) }}
{{- $network = set $network "dns" .dns }}
{{- end }}
{{- end }}
{{- toJson $network }}
{{- else -}}
null
{{- end }}
{{- end }}
{{- end }}

{{/* Namespaces that the installed operator watches and this one does not: names with commas, or `*`
     for all but those of `watchNamespaces`. Empty if there are none, or without a cluster. */}}
{{- define "strandline.formerNamespaces" -}}
{{- $name := include "strandline.fullname" . }}
{{- $deployment := lookup "apps/v1" "Deployment" .Release.Namespace $name }}
{{- if and $deployment .Values.watchNamespaces }}
{{- $watched := list }}
{{- range $deployment.spec.template.spec.containers }}
{{- range (.args | default list) }}
{{- if hasPrefix "--namespaces=" . }}
{{- $watched = append $watched (trimPrefix "--namespaces=" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- $former := list }}
{{- range $watched }}
{{- /* A namespace that is gone, or going, has no Role. */}}
{{- if and (not (has . $.Values.watchNamespaces)) (lookup "rbac.authorization.k8s.io/v1" "Role" . $name) }}
{{- $former = append $former . }}
{{- end }}
{{- end }}
{{- if $watched }}
{{- join "," $former }}
{{- else -}}
*
{{- end }}
{{- end }}
{{- end }}
