"""The kubelets of the GPU nodes, simulated, and the ground truth of what each node has loaded.

The pods, DaemonSets and revisions are real objects under the real controllers. What is simulated
is what a node would do: k8s-driver-manager unloading a driver, the driver container loading
another one, the DRA plugin waiting for a driver, holding on to it and publishing its devices.

    knobs.py     how long things take, and which faults a node has
    status.py    a pod's status as a kubelet writes it
    node.py      one node: what is loaded, and the truth about it
    life.py      what all pods' lives have in common: deletion, reboot, outage
    driver.py    the life of a driver pod
    holder.py    the life of a pod that holds the driver
    plugin.py    the life of a DRA plugin pod, which holds it and publishes devices
    toolkit.py   the life of a container toolkit pod
    workload.py  the lives of all other pods, and of the GPU probe
    slices.py    the ResourceSlices of one node
    kubelet.py   watches the API server and starts lives
"""
