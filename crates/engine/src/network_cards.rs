//! The network cards by which peers are reached one-sided, as the environment names them.

use mooncake_transfer::{
    DeviceWish, EnvError, FabricOptions, Transports, Variables, VerbsOptions, Way,
};

/// What the environment says about network cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkCards {
    /// The ways to peers by preference; `None` if network cards are not allowed.
    ways: Option<Transports>,
    /// The device of libfabric, if the environment names libfabric.
    fabric: Option<FabricOptions>,
    /// The NICs of libibverbs, or which variable about them is wrong.
    nics: Result<VerbsOptions, EnvError>,
    /// Whether the names of devices that a caller gives have no effect.
    finds_all: bool,
}

impl Default for NetworkCards {
    fn default() -> Self {
        NetworkCards {
            ways: Some(by_preference()),
            fabric: None,
            nics: Ok(VerbsOptions::default()),
            finds_all: false,
        }
    }
}

fn by_preference() -> Transports {
    "fabric,tcp".parse().expect("both are ways")
}

impl NetworkCards {
    /// Reads `MOONCAKE_TRANSPORTS`, `MOONCAKE_FABRIC_PROVIDER`, `MC_LIBFABRIC_PATH`, `MC_MS_AUTO_DISC`, and the variables
    /// of [`VerbsOptions::from_variables`].
    pub(crate) fn from_variables<F: Fn(&str) -> Option<String>>(
        variables: &Variables<F>,
    ) -> Result<NetworkCards, EnvError> {
        let wanted = "one or more of shm, process_vm, fabric and tcp, with commas between them";
        let named = variables.parse("MOONCAKE_TRANSPORTS", wanted, |text| text.parse().ok())?;
        let options = FabricOptions::from_variables(|name| variables.text(name));
        let is_fabric_named =
            named.as_ref().is_some_and(|ways: &Transports| ways.prefers(Way::Fabric));
        let fabric = (is_fabric_named || options.provider.is_some()).then_some(options);
        let ways = match named {
            Some(_) if !is_fabric_named => None,
            Some(ways) if !ways.allows(Way::Tcp) => Some(Way::Fabric.into()),
            Some(_) | None => Some(by_preference()),
        };
        let nics = VerbsOptions::from_variables(|name| variables.text(name)).map_err(|error| {
            EnvError { name: error.name, value: error.value, wanted: error.wanted }
        });
        let finds_all = variables.switch("MC_MS_AUTO_DISC")?.unwrap_or(false);
        Ok(NetworkCards { ways, fabric, nics, finds_all })
    }

    /// The ways to peers, and the device, for a protocol. `devices` lists the names of devices, with commas between them;
    /// it is empty for any.
    pub(crate) fn of_protocol(
        &self,
        protocol: &str,
        devices: &str,
    ) -> Result<Option<(Transports, DeviceWish)>, EnvError> {
        let Some(ways) = &self.ways else { return Ok(None) };
        // A list is none of libfabric's devices.
        let device = Some(devices).filter(|name| !name.is_empty() && !name.contains(','));
        let device = device.map(str::to_owned);
        let fabric = self.fabric.clone().map(|options| FabricOptions { device, ..options });
        let wish = match protocol {
            "rdma" => {
                let nics = self.nics.clone()?;
                let nics = if self.finds_all { nics } else { nics.with_devices(devices) };
                Some(DeviceWish::Nics { nics, otherwise: fabric })
            }
            "efa" => fabric.map(DeviceWish::Fabric),
            _ => None,
        };
        Ok(wish.map(|wish| (ways.clone(), wish)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: &str = "MOONCAKE_TRANSPORTS";
    const PROVIDER: (&str, &str) = ("MOONCAKE_FABRIC_PROVIDER", "shm");

    fn cards(set: &[(&str, &str)]) -> Result<NetworkCards, EnvError> {
        NetworkCards::from_variables(&Variables::new(|name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        }))
    }

    #[test]
    fn the_protocol_rdma_takes_nics_of_libibverbs_and_libfabric_where_the_environment_names_it() {
        /// The ways, the NICs, and libfabric's provider and device.
        type Found = (String, Option<Vec<String>>, Option<(Option<String>, Option<String>)>);
        let of = |set: &[(&str, &str)], protocol: &str, devices: &str| -> Option<Found> {
            let (ways, wish) = cards(set).unwrap().of_protocol(protocol, devices).unwrap()?;
            let named = |options: FabricOptions| (options.provider, options.device);
            Some(match wish {
                DeviceWish::Fabric(options) => (ways.to_string(), None, Some(named(options))),
                DeviceWish::Nics { nics, otherwise } => {
                    (ways.to_string(), Some(nics.devices), otherwise.map(named))
                }
            })
        };
        let text = |name: &str| Some(name.to_owned());
        let nics = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        let both = || "fabric,tcp".to_owned();
        let shm = |device: Option<&str>| Some((text("shm"), device.map(str::to_owned)));
        for (set, protocol, devices, expected) in [
            (&[][..], "rdma", "mlx5_0,mlx5_1", Some((both(), nics(&["mlx5_0", "mlx5_1"]), None))),
            (&[("MC_MS_AUTO_DISC", "1")], "rdma", "mlx5_0", Some((both(), nics(&[]), None))),
            (&[], "efa", "", None),
            (&[], "tcp", "", None),
            (&[PROVIDER], "tcp", "", None),
            (&[PROVIDER], "rdma", "lo", Some((both(), nics(&["lo"]), shm(Some("lo"))))),
            (&[PROVIDER], "efa", "lo", Some((both(), None, shm(Some("lo"))))),
            (&[PROVIDER], "efa", "a,b", Some((both(), None, shm(None)))),
            (&[PROVIDER, (WAYS, "shm,tcp")], "rdma", "", None),
            (&[(WAYS, "tcp")], "rdma", "", None),
            (&[(WAYS, "shm,fabric,tcp")], "rdma", "", {
                Some((both(), nics(&[]), Some((None, None))))
            }),
            (&[(WAYS, "shm,fabric")], "rdma", "", {
                Some(("fabric".to_owned(), nics(&[]), Some((None, None))))
            }),
        ] {
            assert_eq!(of(set, protocol, devices), expected, "{set:?} {protocol} {devices}");
        }
    }

    #[test]
    fn a_variable_about_nics_that_is_wrong_matters_to_the_protocol_rdma_alone() {
        let wrong = cards(&[("MC_GID_INDEX", "auto"), PROVIDER]).unwrap();
        assert_eq!(wrong.of_protocol("rdma", "").unwrap_err().name, "MC_GID_INDEX");
        assert!(wrong.of_protocol("efa", "").unwrap().is_some());
        assert_eq!(cards(&[(WAYS, "pigeon")]).map_err(|error| error.name), Err(WAYS));
    }
}
