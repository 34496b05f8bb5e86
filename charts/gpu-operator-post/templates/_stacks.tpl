{{/*
The table of driver stacks: whose policies are read, and which DaemonSets hold the driver. This is the only place in the
chart that knows a stack. A new one is an entry here (and in the schema's enumeration of `drivers`); it must agree with
the program's table, which a test compares.

  group      API group of the stack's policies
  policies   what says which driver should run and whether its operator is content
  drivers    further objects that say which driver should run
  plugins    names of the DaemonSets that hold the driver, as the vendor's charts give them
  sources    what consumers start after and nobody here may ever restart: labels, any of them, of the pods that load the
             driver or bring what a provider brings, and names of containers that load the driver
  prerequisites  what the value `refreshAfter` may name: what consumers of this stack may be asked to start after
  tells      what a policy of this stack says in addition to the driver: `chart`, which chart it comes from
*/}}
{{- define "gpu-operator-post.stackTable" -}}
gpu:
  group: nvidia.com
  policies: [clusterpolicies]
  drivers: [nvidiadrivers]
  plugins:
    - nvidia-dra-driver-gpu-kubelet-plugin
    - dra-driver-nvidia-gpu-kubelet-plugin
  sources:
    labels:
      app.kubernetes.io/component: nvidia-driver
      app: nvidia-container-toolkit-daemonset
    containers: [nvidia-driver-ctr]
  prerequisites: [toolkit]
  tells: [chart]
network:
  group: mellanox.com
  policies: [nicclusterpolicies]
  drivers: []
  plugins:
    - rdma-shared-dp-ds
    - network-operator-sriov-device-plugin
  sources:
    labels:
      nvidia.com/ofed-driver: ""
    containers: [mofed-container]
  prerequisites: []
  tells: []
{{- end -}}

{{/*
The chosen rows of the table, as a JSON list, each with its name.
*/}}
{{- define "gpu-operator-post.stacks" -}}
{{- $table := include "gpu-operator-post.stackTable" . | fromYaml -}}
{{- $rows := list -}}
{{- range .Values.drivers -}}
{{- if not (hasKey $table .) -}}
{{- fail (printf "drivers names %q, which is unknown: choose among %s." . (keys $table | sortAlpha | join ", ")) -}}
{{- end -}}
{{- $rows = append $rows (set (get $table .) "name" .) -}}
{{- end -}}
{{- if empty $rows -}}
{{- fail "drivers is empty: name at least one, such as gpu." -}}
{{- end -}}
{{- $rows | toJson -}}
{{- end -}}

{{/*
The driver of an entry of plugin.names or driverClients: the first of `drivers`, unless the entry names one. Takes a dict of
root, name (of the value, for the message) and entry.
*/}}
{{- define "gpu-operator-post.driverOf" -}}
{{- $driver := .entry.driver | default (first .root.Values.drivers) -}}
{{- if not (has $driver .root.Values.drivers) -}}
{{- fail (printf "%s names the driver %q, but drivers does not: add the driver, or remove the entry." .name $driver) -}}
{{- end -}}
{{- $driver -}}
{{- end -}}

{{/*
The names of the plugins' DaemonSets, as a JSON list of maps of driver and name: those that are given, and the defaults of
the drivers for which none is given. Discovery and the admission policy use this one list.
*/}}
{{- define "gpu-operator-post.pluginNames" -}}
{{- $root := . -}}
{{- $given := list -}}
{{- range .Values.plugin.names -}}
{{- $entry := kindIs "map" . | ternary . (dict "name" .) -}}
{{- $driver := include "gpu-operator-post.driverOf" (dict "root" $root "name" "plugin.names" "entry" $entry) -}}
{{- $given = append $given (dict "driver" $driver "name" $entry.name) -}}
{{- end -}}
{{- $names := list -}}
{{- range $row := include "gpu-operator-post.stacks" . | fromJsonArray -}}
{{- $own := list -}}
{{- range $given -}}
{{- if eq .driver $row.name -}}
{{- $own = append $own . -}}
{{- end -}}
{{- end -}}
{{- if empty $own -}}
{{- range $row.plugins -}}
{{- $own = append $own (dict "driver" $row.name "name" .) -}}
{{- end -}}
{{- end -}}
{{- $names = concat $names $own -}}
{{- end -}}
{{- $names | uniq | toJson -}}
{{- end -}}

{{/*
The further DaemonSets, as a JSON list of maps of driver, and either namespace and name, or labels.
*/}}
{{- define "gpu-operator-post.driverClients" -}}
{{- $root := . -}}
{{- $found := list -}}
{{- range .Values.driverClients -}}
{{- $driver := include "gpu-operator-post.driverOf" (dict "root" $root "name" "driverClients" "entry" .) -}}
{{- if and .namespace (eq $root.Values.rbac.scope "namespace") (not (has .namespace $root.Values.rbac.namespaces)) -}}
{{- fail (printf "driverClients names %s/%s, but rbac.namespaces does not name %q: the DaemonSet there could not be read." .namespace .name .namespace) -}}
{{- end -}}
{{- $found = append $found (merge (dict "driver" $driver) .) -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}
