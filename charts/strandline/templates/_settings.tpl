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
- {{ printf "--retry-defaults=%s" (toJson .Values.retryDefaults) | quote }}
{{- end }}
