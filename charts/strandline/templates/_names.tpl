{{/* What objects are called, and how they are found again. */}}

{{- define "strandline.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "strandline.fullname" -}}
{{- $name := include "strandline.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 53 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 53 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Objects of the whole cluster have the namespace in their names, so that two installations differ. */}}
{{- define "strandline.clusterName" -}}
{{- $name := printf "%s-%s" .Release.Namespace (include "strandline.fullname" .) }}
{{- ternary (include "strandline.fullname" .) $name (eq .Release.Namespace (include "strandline.fullname" .)) }}
{{- end }}

{{- define "strandline.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "strandline.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "strandline.selector" -}}
app.kubernetes.io/name: {{ include "strandline.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* What the operator's pod has, and no other. */}}
{{- define "strandline.operatorLabels" -}}
{{ include "strandline.selector" . }}
app.kubernetes.io/component: operator
{{- end }}

{{/* The same as a selector in one line. */}}
{{- define "strandline.operatorSelector" -}}
app.kubernetes.io/name={{ include "strandline.name" . }},app.kubernetes.io/instance={{ .Release.Name }},app.kubernetes.io/component=operator
{{- end }}

{{- define "strandline.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "strandline.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: strandline
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* An image's reference; takes the image's values and the chart's. */}}
{{- define "strandline.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ default .chart.AppVersion .image.tag }}
{{- end }}
{{- end }}
