"""The kubelets of the GPU nodes, simulated, and the ground truth of what each node has loaded.

The pods, DaemonSets and revisions are real objects under the real controllers. What is simulated
is what a node would do: k8s-driver-manager unloading a driver, the driver container loading
another one, the DRA plugin waiting for a driver, holding on to it and publishing its devices; and
the same for the network card's driver and its device plugins.

    settings.py      how long things take
    faults.py        the annotations that cause a fault on a node
    status.py        a pod's status as a kubelet writes it
    stack.py         one kind of driver on a node: what is loaded, and the truth about it
    node.py          one node: its drivers, and what the API says of it
    life.py          what all pods' lives have in common: deletion, reboot, outage
    loader.py        what the lives of all driver pods have in common
    driver.py        the life of a GPU driver pod
    mofed.py         the life of a network driver pod
    driverclient.py  the life of a pod that holds a driver
    plugin.py        the life of a DRA plugin pod, which holds it and publishes devices
    nicplugin.py     the life of a network device plugin pod
    toolkit.py       the life of a container toolkit pod
    migmanager.py    the life of a MIG manager's pod
    workload.py      the lives of all other pods, and of the GPU probe
    slices.py        the ResourceSlices of one node
    kubelet.py       watches the API server and starts lives
"""
