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
