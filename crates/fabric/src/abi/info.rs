use std::ffi::{c_char, c_int, c_void};

use super::objects::{Fid, fid_domain, fid_fabric};
use super::structures;

structures! { INFO_LAYOUTS:
    leading "fi_tx_attr" TxAttr {
        caps: u64,
        mode: u64,
        op_flags: u64,
        msg_order: u64,
        comp_order: u64,
        inject_size: usize,
        size: usize,
        iov_limit: usize,
        rma_iov_limit: usize,
    }
    leading "fi_ep_attr" EpAttr {
        type_: u32,
        protocol: u32,
        protocol_version: u32,
        max_msg_size: usize,
    }
    leading "fi_domain_attr" DomainAttr {
        domain: *mut fid_domain,
        name: *mut c_char,
        threading: u32,
        control_progress: u32,
        data_progress: u32,
        resource_mgmt: u32,
        av_type: u32,
        mr_mode: c_int,
        mr_key_size: usize,
    }
    leading "fi_fabric_attr" FabricAttr {
        fabric: *mut fid_fabric,
        name: *mut c_char,
        prov_name: *mut c_char,
        prov_version: u32,
        api_version: u32,
    }
    leading "fi_info" Info {
        next: *mut Info,
        caps: u64,
        mode: u64,
        addr_format: u32,
        src_addrlen: usize,
        dest_addrlen: usize,
        src_addr: *mut c_void,
        dest_addr: *mut c_void,
        handle: *mut Fid,
        tx_attr: *mut TxAttr,
        rx_attr: *mut c_void,
        ep_attr: *mut EpAttr,
        domain_attr: *mut DomainAttr,
        fabric_attr: *mut FabricAttr,
        nic: *mut Nic,
    }
    leading "fid_nic" Nic {
        fid: Fid,
        device_attr: *mut DeviceAttr,
        bus_attr: *mut BusAttr,
        link_attr: *mut LinkAttr,
    }
    leading "fi_device_attr" DeviceAttr {
        name: *mut c_char,
    }
    leading "fi_pci_attr" PciAttr {
        domain_id: u16,
        bus_id: u8,
        device_id: u8,
        function_id: u8,
    }
    leading "fi_bus_attr" BusAttr {
        bus_type: u32,
        attr: PciAttr,
    }
    leading "fi_link_attr" LinkAttr {
        address: *mut c_char,
        mtu: usize,
        speed: usize,
        state: u32,
        network_type: *mut c_char,
    }
}
