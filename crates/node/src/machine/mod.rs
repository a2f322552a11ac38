pub(crate) mod pins;
