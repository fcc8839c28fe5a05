{{/* Labels that tell the operator's pods: engines' NetworkPolicies let in whoever has them. */}}
{{- define "tidegate.selector" -}}
app.kubernetes.io/name: tidegate
app.kubernetes.io/component: operator
{{- end }}

{{/* Labels of every object. Helm itself adds app.kubernetes.io/managed-by. */}}
{{- define "tidegate.labels" -}}
{{ include "tidegate.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Name and labels of an object of the operator's namespace. */}}
{{- define "tidegate.metadata" -}}
name: tidegate
namespace: {{ .Release.Namespace | quote }}
labels:
  {{- include "tidegate.labels" . | nindent 2 }}
{{- end }}

{{/* The image by its digest, else by its tag. */}}
{{- define "tidegate.image" -}}
{{- with .Values.image -}}
{{- if not .repository -}}
{{- fail "image.repository is empty: build operator/Dockerfile, push the image, and name it with --set image.repository=REGISTRY/tidegate" -}}
{{- end -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* What a container may do: as little as Pod Security `restricted` asks for, and no writing. */}}
{{- define "tidegate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* What a pod runs as. */}}
{{- define "tidegate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Whether cert-manager keeps the webhook's certificate: "true" or empty. */}}
{{- define "tidegate.certManager" -}}
{{- if and .Values.webhook.enabled .Values.webhook.certManager.enabled -}}true{{- end -}}
{{- end }}

{{/* Whether the operator keeps it: "true" or empty. */}}
{{- define "tidegate.ownCertificates" -}}
{{- if and .Values.webhook.enabled (not .Values.webhook.certManager.enabled) -}}true{{- end -}}
{{- end }}
