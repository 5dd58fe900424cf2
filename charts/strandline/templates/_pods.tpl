{{/* What all pods of this chart share: none may be more than the restricted profile lets it. */}}

{{- define "strandline.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.runAsUser }}
runAsUser: {{ . }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "strandline.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end }}

{{- define "strandline.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Where pods may go. */}}
{{- define "strandline.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Specification of a Job that looks after held pipelines; takes the chart's scope and its flags. */}}
{{- define "strandline.uninstallJob" -}}
{{- $args := index . 1 }}
{{- with index . 0 -}}
backoffLimit: 0
template:
  metadata:
    labels:
      {{- include "strandline.labels" . | nindent 6 }}
      app.kubernetes.io/component: uninstall
  spec:
    restartPolicy: Never
    serviceAccountName: {{ include "strandline.serviceAccountName" . }}
    automountServiceAccountToken: true
    enableServiceLinks: false
{{- with include "strandline.pullSecrets" . | trim }}
{{ . | indent 4 }}
{{- end }}
    securityContext:
      {{- include "strandline.podSecurity" . | nindent 6 }}
    containers:
      - name: uninstall
        image: {{ include "strandline.image" (dict "image" .Values.image "chart" .Chart) | quote }}
        imagePullPolicy: {{ .Values.image.pullPolicy }}
        command: [strandline-operator, uninstall]
        args:
          {{- range $args }}
          - {{ . }}
          {{- end }}
        {{- with .Values.env }}
        env:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        resources:
          requests: {cpu: 10m, memory: 64Mi}
          limits: {memory: 256Mi}
        securityContext:
          {{- include "strandline.containerSecurity" . | nindent 10 }}
        volumeMounts:
          - name: temporary
            mountPath: /tmp
    volumes:
      - name: temporary
        emptyDir:
          sizeLimit: 16Mi
{{- with include "strandline.placement" . | trim }}
{{ . | indent 4 }}
{{- end }}
{{- end }}
{{- end }}

{{/* When Helm makes the objects of a hook, and deletes them; takes the hook and a weight. */}}
{{- define "strandline.hook" -}}
helm.sh/hook: {{ index . 0 }}
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* When the objects of a removal are made and go again; takes the chart's scope and a weight.
     Argo CD reads its own words alone where a chart has any. */}}
{{- define "strandline.uninstallHook" -}}
{{ include "strandline.hook" (list "pre-delete" (index . 1)) }}
argocd.argoproj.io/hook: PreDelete
argocd.argoproj.io/sync-wave: {{ index . 1 | quote }}
argocd.argoproj.io/hook-delete-policy: BeforeHookCreation,HookSucceeded
{{- end }}
