use super::declare_constants;

declare_constants! {
    // Capabilities, accesses and flags of operations.
    u64 {
        FI_RMA = 1 << 2;
        FI_READ = 1 << 8;
        FI_WRITE = 1 << 9;
        FI_TRANSMIT = 1 << 11;
        FI_RECV = 1 << 10;
        FI_REMOTE_READ = 1 << 12;
        FI_REMOTE_WRITE = 1 << 13;
        FI_DELIVERY_COMPLETE = 1 << 28;
        FI_CONTEXT = 1 << 59;
        FI_CONTEXT2 = 1 << 52;
    }
    // What a provider asks of registrations (`mr_mode`).
    i32 {
        FI_MR_LOCAL = 1 << 2;
        FI_MR_VIRT_ADDR = 1 << 4;
        FI_MR_ALLOCATED = 1 << 5;
        FI_MR_PROV_KEY = 1 << 6;
        FI_MR_ENDPOINT = 1 << 9;
    }
    // Formats of addresses.
    u32 {
        FI_SOCKADDR = 1;
        FI_SOCKADDR_IN = 2;
        FI_SOCKADDR_IN6 = 3;
        FI_ADDR_STR = 9;
    }
    // Enumerations.
    u32 {
        FI_AV_TABLE = 2;
        FI_PROGRESS_AUTO = 1;
        FI_THREAD_SAFE = 1;
        FI_RM_ENABLED = 2;
        FI_EP_RDM = 3;
        FI_BUS_PCI = 1;
        FI_LINK_DOWN = 1;
        FI_LINK_UP = 2;
        FI_CQ_FORMAT_CONTEXT = 1;
        FI_WAIT_NONE = 0;
        FI_WAIT_FD = 3;
    }
    // Commands of `fi_control`.
    i32 {
        FI_GETWAIT = 5;
        FI_ENABLE = 6;
    }
    // Errors, which calls return with a minus.
    i32 {
        FI_EAGAIN = 11;
        FI_ENOMEM = 12;
        FI_ENOSYS = 38;
        FI_ENODATA = 61;
        FI_EAVAIL = 259;
    }
}
