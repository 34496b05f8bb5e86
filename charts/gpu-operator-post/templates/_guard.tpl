{{/*
The guard: what an admission policy lets the ServiceAccounts of this release do, in CEL. Every name in it was checked for its form, and
toJson writes CEL's literals too.
*/}}

{{/*
Whether to render the policies. A cluster that was asked lists its kinds: then this kind must be among them, because an
administrator may have turned it off. Without a cluster (helm template, some bundlers) only groups and versions are
known: then the version decides, and every Kubernetes that this chart admits serves the kind (v1 since 1.30).
*/}}
{{- define "gpu-operator-post.guardRendered" -}}
{{- $group := "admissionregistration.k8s.io/v1" -}}
{{- $asked := .Capabilities.APIVersions.Has (printf "%s/ValidatingWebhookConfiguration" $group) -}}
{{- $served := .Capabilities.APIVersions.Has (printf "%s/ValidatingAdmissionPolicy" $group) -}}
{{- if and .Values.enabled .Values.rbac.create .Values.rbac.admissionPolicy.enabled (or $served (not $asked)) -}}
true
{{- end -}}
{{- end -}}

{{/*
Where the cluster says that it does not serve the kind, the account would be unconfined without anybody having said so:
that is refused. A dry run has no right that wants confining.
*/}}
{{- define "gpu-operator-post.checkGuard" -}}
{{- if and .Values.rbac.create .Values.rbac.admissionPolicy.enabled (not .Values.dryRun) (not (include "gpu-operator-post.guardRendered" .)) -}}
{{- fail "rbac.admissionPolicy.enabled is true, but this cluster does not serve ValidatingAdmissionPolicies: without the guard this ServiceAccount may restart anything that RBAC lets it reach. Have them served, or set rbac.admissionPolicy.enabled=false if that is meant." -}}
{{- end -}}
{{- end -}}

{{/*
Names of the policies. No colon, as in our other cluster-scoped names: these may hold none.
*/}}
{{- define "gpu-operator-post.guardName" -}}
{{- printf "%s.%s.%s" .root.Release.Namespace (include "gpu-operator-post.fullname" .root) .part -}}
{{- end -}}

{{/*
What every policy of the guard has in common. It concerns the accounts of this release and nobody else: all of them, so
that an account has no more by being given the other's rights. matchPolicy is what the API server would fill in: written
out, so that GitOps tools see no difference. Takes a dict of root and rules, each of group, resource and operations.
*/}}
{{- define "gpu-operator-post.guardMatches" -}}
{{- $users := list -}}
{{- range include "gpu-operator-post.workloads" .root | fromJsonArray -}}
{{- $users = append $users (printf "system:serviceaccount:%s:%s" $.root.Release.Namespace .account) -}}
{{- end -}}
failurePolicy: Fail
matchConstraints:
  matchPolicy: Equivalent
  resourceRules:
    {{- range .rules }}
    - apiGroups: [{{ .group | quote }}]
      apiVersions: [v1]
      operations: {{ toJson .operations }}
      resources: [{{ .resource }}]
      scope: Namespaced
    {{- end }}
matchConditions:
  - name: this-release
    expression: {{ printf "request.userInfo.username in %s" (toJson $users) | quote }}
{{- end -}}

{{/*
The policies' subjects, as a JSON list: a policy and a binding for each.
*/}}
{{- define "gpu-operator-post.guardParts" -}}
{{- $parts := list "pods" "daemonsets" "events" -}}
{{- if .Values.controller.enabled -}}
{{- $parts = append $parts "leases" -}}
{{- end -}}
{{- toJson $parts -}}
{{- end -}}

{{/*
CEL: whether pods are a source, which loads a driver or brings what a provider brings, of any stack of the table: they are
older than what consumers start after, so a rule that is too wide would have them restarted for ever.
Takes a dict of root, labels (CEL of the optional labels of the pods) and containers (CEL of their containers).
*/}}
{{- define "gpu-operator-post.guardSource" -}}
{{- $labels := .labels -}}
{{- $ways := list -}}
{{- $containers := list -}}
{{- range include "gpu-operator-post.stackTable" .root | fromYaml -}}
{{- range $key, $value := .sources.labels -}}
{{- $ways = append $ways (printf "%s[?%s] == optional.of(%s)" $labels (toJson $key) (toJson $value)) -}}
{{- end -}}
{{- $containers = concat $containers .sources.containers -}}
{{- end -}}
{{- printf "%s || %s.exists(c, c.name in %s)" (join " || " $ways) .containers (toJson $containers) -}}
{{- end -}}

{{/*
CEL: whether a DaemonSet is one that may be restarted, by the names and labels that discovery uses as well.
Takes a dict of root, name (CEL of the DaemonSet's name) and labels (CEL of the optional labels of its pods).
*/}}
{{- define "gpu-operator-post.guardConsumer" -}}
{{- $name := .name -}}
{{- $labels := .labels -}}
{{- $names := list -}}
{{- range include "gpu-operator-post.pluginNames" .root | fromJsonArray -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $named := printf "%s in %s" $name ($names | uniq | toJson) -}}
{{- with .root.Values.plugin.namespace -}}
{{- $named = printf "%s && request.namespace == %s" $named (toJson .) -}}
{{- end -}}
{{- $ways := list $named -}}
{{- range include "gpu-operator-post.driverClients" .root | fromJsonArray -}}
{{- if .labels -}}
{{- $all := list -}}
{{- range $key, $value := .labels -}}
{{- $all = append $all (printf "%s[?%s] == optional.of(%s)" $labels (toJson $key) (toJson $value)) -}}
{{- end -}}
{{- $ways = append $ways (join " && " $all) -}}
{{- else -}}
{{- $ways = append $ways (printf "%s == %s && request.namespace == %s" $name (toJson .name) (toJson .namespace)) -}}
{{- end -}}
{{- end -}}
{{- $any := printf "(%s)" (join ") || (" $ways) -}}
{{- with include "gpu-operator-post.namespaces" .root | fromJsonArray -}}
{{- $any = printf "request.namespace in %s && (%s)" (toJson .) $any -}}
{{- end -}}
{{- $any -}}
{{- end -}}

{{/*
CEL: two maps are equal but for some keys. Takes a dict of new, old and but (a list of keys).
*/}}
{{- define "gpu-operator-post.guardEqualBut" -}}
{{- $but := toJson .but -}}
{{- printf "dyn(%[1]s).all(k, k in %[3]s || (k in dyn(%[2]s) && dyn(%[1]s)[k] == dyn(%[2]s)[k])) && dyn(%[2]s).all(k, k in %[3]s || k in dyn(%[1]s))" .new .old $but -}}
{{- end -}}

{{/*
On objects of which kinds Events may be written, as a JSON list: on the plugins' DaemonSets, and on who runs.
*/}}
{{- define "gpu-operator-post.guardEventKinds" -}}
{{- $kinds := list "DaemonSet" -}}
{{- range include "gpu-operator-post.workloads" . | fromJsonArray -}}
{{- $kinds = append $kinds (eq .part "job" | ternary "Job" "Deployment") -}}
{{- end -}}
{{- toJson $kinds -}}
{{- end -}}
