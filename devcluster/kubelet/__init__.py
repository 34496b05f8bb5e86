"""A real node next to the embedded control plane: Kubernetes' own kubelet, containerd and runc.

They live in a box of namespaces (mounts, processes, network, host name, IPC, cgroups), so that nothing they do to
"the machine" reaches the machine, and the end of the box's first process is the end of everything in it.

    enter.py   makes the box's cgroups and becomes the box
    box.py     the box's first process: prepares it and runs what lives in it
    archive.py images, without a registry or a builder
    files.py   configuration of containerd, kubelet and the pod network
    gateway.py carries connections between the box and the control plane outside
    node.py    what the cluster does to have a real node, and to be rid of it
"""
