/* A mock of NVIDIA's Management Library (libnvidia-ml.so): as much as the DRA kubelet plugins call.
 *
 * It knows where it was loaded from, and reads all else from that driver root:
 *
 *   <root>/usr/lib/.../libnvidia-ml.so.<version>   its own version: the end of its file's name
 *   <root>/run/nvidia/module-version               the version of the kernel module; none is loaded where it is empty
 *   <root>/dev/nvidia<minor>                       the devices
 *
 * A library of one version does not talk to a module of another: NVML_ERROR_LIB_RM_VERSION_MISMATCH. */
#define _GNU_SOURCE
#include "nvml.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libnvidia-ml.so."
#define EXPORT __attribute__((visibility("default")))

enum {
    MOST_DEVICES = 8,
    FIRST_BUS = 0x10,
    TEXT = 80,
    CUDA_VERSION = 13000,
    BRAND_NVIDIA = 14,
    ARCHITECTURE_HOPPER = 9,
    H100_PCI_ID = 0x233010de,
};

/* A handle is the address of a device's minor number in this table. */
struct nvmlDevice_st {
    unsigned int minor;
};

static const struct nvmlDevice_st table[MOST_DEVICES] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
static const unsigned long long memory_bytes = 80ULL << 30;

static char root[PATH_MAX];
static char version[TEXT];
static unsigned int users;

/* Find out the driver root and the version of this library from its own path. */
static int locate(void)
{
    Dl_info own;
    char *name, *folder;

    if (dladdr(table, &own) == 0 || realpath(own.dli_fname, root) == NULL)
        return 0;
    name = strstr(root, LIBRARY);
    folder = strstr(root, "/usr/lib");
    if (name == NULL || folder == NULL)
        return 0;
    snprintf(version, sizeof version, "%s", name + strlen(LIBRARY));
    *folder = '\0';
    return 1;
}

/* Read the version of the kernel module; empty if none is loaded. */
static void read_module(char *module, int length)
{
    char path[PATH_MAX + TEXT];
    FILE *file;

    module[0] = '\0';
    snprintf(path, sizeof path, "%s/run/nvidia/module-version", root);
    file = fopen(path, "r");
    if (file == NULL)
        return;
    if (fgets(module, length, file) != NULL)
        module[strcspn(module, "\n")] = '\0';
    fclose(file);
}

static int exists(const struct nvmlDevice_st *device)
{
    char path[PATH_MAX + TEXT];

    snprintf(path, sizeof path, "%s/dev/nvidia%u", root, device->minor);
    return access(path, F_OK) == 0;
}

static nvmlReturn_t put(char *target, unsigned int length, const char *text)
{
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(target, text);
    return NVML_SUCCESS;
}

static void name_uuid(const struct nvmlDevice_st *device, char *uuid)
{
    snprintf(uuid, TEXT, "GPU-00000000-0000-4000-8000-%012x", device->minor);
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    char module[TEXT];

    (void)flags;
    if (!locate())
        return NVML_ERROR_NOT_FOUND;
    read_module(module, sizeof module);
    if (module[0] == '\0')
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (strcmp(module, version) != 0)
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    users++;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
    if (users == 0)
        return NVML_ERROR_UNINITIALIZED;
    users--;
    return NVML_SUCCESS;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return "Driver/library version mismatch";
    }
    return "Unknown Error";
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *target, unsigned int length)
{
    return users == 0 ? NVML_ERROR_UNINITIALIZED : put(target, length, version);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *cuda)
{
    *cuda = CUDA_VERSION;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    *count = 0;
    if (users == 0)
        return NVML_ERROR_UNINITIALIZED;
    for (int each = 0; each < MOST_DEVICES; each++)
        *count += (unsigned int)exists(&table[each]);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    if (users == 0)
        return NVML_ERROR_UNINITIALIZED;
    for (int each = 0; each < MOST_DEVICES; each++) {
        if (exists(&table[each]) && index-- == 0) {
            *device = (nvmlDevice_t)&table[each];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    char own[TEXT];

    if (users == 0)
        return NVML_ERROR_UNINITIALIZED;
    for (int each = 0; each < MOST_DEVICES; each++) {
        name_uuid(&table[each], own);
        if (exists(&table[each]) && strcmp(own, uuid) == 0) {
            *device = (nvmlDevice_t)&table[each];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    *minor = device->minor;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    *index = 0;
    for (int each = 0; each < (int)device->minor; each++)
        *index += (unsigned int)exists(&table[each]);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    char own[TEXT];

    name_uuid(device, own);
    return put(uuid, length, own);
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    (void)device;
    return put(name, length, "NVIDIA H100 80GB HBM3");
}

EXPORT nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, unsigned int *brand)
{
    (void)device;
    *brand = BRAND_NVIDIA;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int *architecture)
{
    (void)device;
    *architecture = ARCHITECTURE_HOPPER;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    (void)device;
    *major = ARCHITECTURE_HOPPER;
    *minor = 0;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    (void)device;
    *memory = (nvmlMemory_t){.total = memory_bytes, .free = memory_bytes, .used = 0};
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    memset(pci, 0, sizeof *pci);
    pci->bus = FIRST_BUS + device->minor;
    pci->pciDeviceId = H100_PCI_ID;
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:%02X:00.0", pci->bus);
    snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", pci->bus);
    return NVML_SUCCESS;
}

/* These devices cannot be partitioned. */
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile, void *info)
{
    (void)device;
    (void)profile;
    (void)info;
    return NVML_ERROR_NOT_SUPPORTED;
}

/* Nor are they part of an NVLink fabric. */
EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, void *info)
{
    (void)device;
    (void)info;
    return NVML_ERROR_NOT_SUPPORTED;
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
    (void)device;
    *is_mig = 0;
    return NVML_SUCCESS;
}
