use mooncake_ha::Leadership;

use super::tenure::Tenure;

/// One leadership of this master, from when it was won.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) leadership: Leadership,
    pub(crate) tenure: Tenure,
    /// Whether the record outlives the master. If not, nobody waits for it either.
    pub(crate) is_recorded: bool,
}

impl Term {
    pub(crate) fn new(leadership: Leadership) -> Term {
        Term { tenure: Tenure::new(leadership.clone()), leadership, is_recorded: true }
    }

    /// That of a master which remembers nothing from start to start.
    pub(crate) fn unrecorded() -> Term {
        Term { is_recorded: false, ..Term::new(Leadership::unrecorded()) }
    }
}
