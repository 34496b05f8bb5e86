{{/*
The table of driver stacks: whose policies are read, and which DaemonSets hold the driver. This is the only place in the
chart that knows a stack. A new one is an entry here (and in the schema's enumeration of `stacks`); it must agree with
the program's table, which a test compares.

  group      API group of the stack's policies
  policies   what says which driver should run and whether its operator is content
  drivers    further objects that say which driver should run
  consumers  names of the DaemonSets that hold the driver, as the vendor's charts give them
  sources    what consumers start after and nobody here may ever restart: labels, any of them, of the pods that load the
             driver or bring what a provider brings, and names of containers that load the driver
  providers  what the value `providers` may name: what consumers of this stack may be asked to start after
  tells      what a policy of this stack says in addition to the driver: `chart`, which chart it comes from
*/}}
{{- define "gpu-operator-post.stackTable" -}}
gpu:
  group: nvidia.com
  policies: [clusterpolicies]
  drivers: [nvidiadrivers]
  consumers:
    - nvidia-dra-driver-gpu-kubelet-plugin
    - dra-driver-nvidia-gpu-kubelet-plugin
  sources:
    labels:
      app.kubernetes.io/component: nvidia-driver
      app: nvidia-container-toolkit-daemonset
    containers: [nvidia-driver-ctr]
  providers: [toolkit]
  tells: [chart]
network:
  group: mellanox.com
  policies: [nicclusterpolicies]
  drivers: []
  consumers:
    - rdma-shared-dp-ds
    - network-operator-sriov-device-plugin
  sources:
    labels:
      nvidia.com/ofed-driver: ""
    containers: [mofed-container]
  providers: []
  tells: []
{{- end -}}

{{/*
The chosen rows of the table, as a JSON list, each with its name.
*/}}
{{- define "gpu-operator-post.stacks" -}}
{{- $table := include "gpu-operator-post.stackTable" . | fromYaml -}}
{{- $rows := list -}}
{{- range .Values.stacks -}}
{{- if not (hasKey $table .) -}}
{{- fail (printf "stacks names %q, which is no driver stack: choose among %s." . (keys $table | sortAlpha | join ", ")) -}}
{{- end -}}
{{- $rows = append $rows (set (get $table .) "name" .) -}}
{{- end -}}
{{- if empty $rows -}}
{{- fail "stacks is empty: name at least one driver stack, such as gpu." -}}
{{- end -}}
{{- $rows | toJson -}}
{{- end -}}

{{/*
Split an optional "STACK:" from a value, as a JSON map of stack and rest; the first stack is meant where none is given.
Takes a dict of root, name (of the value, for the message) and value.
*/}}
{{- define "gpu-operator-post.ofStack" -}}
{{- $stack := first .root.Values.stacks -}}
{{- $rest := .value -}}
{{- if contains ":" .value -}}
{{- $stack = regexReplaceAll ":.*" .value "" -}}
{{- $rest = trimPrefix (printf "%s:" $stack) .value -}}
{{- if not (has $stack .root.Values.stacks) -}}
{{- fail (printf "%s holds %q, but stacks does not name %q: add the stack, or take the entry away." .name .value $stack) -}}
{{- end -}}
{{- end -}}
{{- dict "stack" $stack "rest" $rest | toJson -}}
{{- end -}}

{{/*
The names of the plugins' DaemonSets, as a JSON list of maps of stack and rest (the name): those that are given, and the
defaults of the stacks that none is given for. Discovery and guard use this one list.
*/}}
{{- define "gpu-operator-post.consumerNames" -}}
{{- $root := . -}}
{{- $given := list -}}
{{- range .Values.consumer.names -}}
{{- $one := include "gpu-operator-post.ofStack" (dict "root" $root "name" "consumer.names" "value" .) | fromJson -}}
{{- include "gpu-operator-post.checkObjectName" (dict "name" "consumer.names" "value" . "part" $one.rest) -}}
{{- $given = append $given $one -}}
{{- end -}}
{{- $names := list -}}
{{- range $row := include "gpu-operator-post.stacks" . | fromJsonArray -}}
{{- $own := list -}}
{{- range $given -}}
{{- if eq .stack $row.name -}}
{{- $own = append $own . -}}
{{- end -}}
{{- end -}}
{{- if empty $own -}}
{{- range $row.consumers -}}
{{- $own = append $own (dict "stack" $row.name "rest" .) -}}
{{- end -}}
{{- end -}}
{{- $names = concat $names $own -}}
{{- end -}}
{{- $names | uniq | toJson -}}
{{- end -}}

{{/*
The further DaemonSets, as a JSON list of maps of stack, rest (as it is written), and either namespace and name, or labels.
*/}}
{{- define "gpu-operator-post.consumers" -}}
{{- $root := . -}}
{{- $found := list -}}
{{- range .Values.consumers -}}
{{- $one := include "gpu-operator-post.ofStack" (dict "root" $root "name" "consumers" "value" .) | fromJson -}}
{{- if contains "=" $one.rest -}}
{{- $labels := dict -}}
{{- range splitList "," $one.rest -}}
{{- include "gpu-operator-post.checkLabel" (dict "name" "consumers" "value" $one.rest "part" .) -}}
{{- $key := regexReplaceAll "=.*" . "" -}}
{{- $_ := set $labels $key (trimPrefix (printf "%s=" $key) .) -}}
{{- end -}}
{{- $_ := set $one "labels" $labels -}}
{{- else -}}
{{- $parts := splitList "/" $one.rest -}}
{{- if ne (len $parts) 2 -}}
{{- fail (printf "consumers holds %q: write NAMESPACE/NAME of a DaemonSet, or labels of its pod template as key=value,key=value." .) -}}
{{- end -}}
{{- include "gpu-operator-post.checkNamespace" (dict "name" "consumers" "value" (first $parts)) -}}
{{- include "gpu-operator-post.checkObjectName" (dict "name" "consumers" "value" . "part" (last $parts)) -}}
{{- if and (eq $root.Values.rbac.scope "namespace") (not (has (first $parts) $root.Values.rbac.namespaces)) -}}
{{- fail (printf "consumers holds %q, but rbac.namespaces does not name %q: the DaemonSet there could not be read." . (first $parts)) -}}
{{- end -}}
{{- $_ := set $one "namespace" (first $parts) -}}
{{- $_ := set $one "name" (last $parts) -}}
{{- end -}}
{{- $found = append $found $one -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}
