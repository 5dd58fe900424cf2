{{/* All that the operator asks of the API server: each verb here is one that it uses. */}}
{{- define "strandline.rules" -}}
- apiGroups: [strandline.dev]
  resources: [curationpipelines]
  verbs: [get, list, watch, patch]
- apiGroups: [strandline.dev]
  resources: [curationattempts]
  verbs: [get, list, watch, create, delete]
- apiGroups: [strandline.dev]
  resources: [curationpipelines/status, curationattempts/status]
  verbs: [update]
# Some clusters ask for this before an object may name another as its owner.
- apiGroups: [strandline.dev]
  resources: [curationpipelines/finalizers, curationattempts/finalizers]
  verbs: [update]
- apiGroups: [ray.io]
  resources: [rayjobs]
  verbs: [get, list, watch, create, delete]
- apiGroups: [ray.io]
  resources: [rayclusters]
  verbs: [list, watch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, delete]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [""]
  resources: [persistentvolumeclaims, configmaps]
  verbs: [get, create]
# What an attempt's workers may say to its driver: made, and never read.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
# A ledger's claim grows with the spec.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, list]
# What a namespace demands of containers, where an attempt is to be made.
- apiGroups: [""]
  resources: [resourcequotas, limitranges]
  verbs: [list]
# Why Kueue holds an attempt in a queue, where Kueue is installed.
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [list]
- apiGroups: [kueue.x-k8s.io]
  resources: [localqueues]
  verbs: [get]
{{- if .Values.preflight.enabled }}
# A Job checks a pipeline, and is deleted when it has spoken.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, create, delete]
{{- end }}
{{- if .Values.attemptDisruptionBudgets.enabled }}
# A budget stands as long as its attempt, and is made where a pipeline asks for one.
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, create]
{{- end }}
{{- if or .Values.attemptNetworkPolicy.enabled .Values.attemptNetworkPolicy.driverPort }}
# A policy stands as long as its attempt, so none is ever changed, and garbage collection removes it.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create]
{{- end }}
{{- end }}

{{/* Whether a node still runs the pods that it has, who takes it away, and how much it has for pods
     is written in no namespace. */}}
{{- define "strandline.nodeRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
{{- end }}

{{/* The key of attempts' tokens, which is read by its name alone. */}}
{{- define "strandline.keyRules" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
  resourceNames: [{{ include "strandline.serviceAccountName" . }}-attempt-tokens]
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
# What it has to say of itself.
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}

{{- define "strandline.subjects" -}}
- kind: ServiceAccount
  name: {{ include "strandline.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
