//! Containment of the programs that the gateway starts: the configured level, the protections, and their status.
//! Nothing here depends on the kernel.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::support::launcher::HiddenPlaces;

/// How far a program is kept from what the gateway holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Contain {
    /// From keys, logins and other servers' secrets.
    #[default]
    Keys,
    /// Not at all: it runs like the gateway itself.
    Off,
}

/// Rules for one program, from `[programs]` and the places of data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramRules {
    /// The level of a program without its own setting.
    pub contain: Contain,
    /// True if a program that cannot be fully contained must not start.
    pub is_required: bool,
    /// Places hidden from it.
    pub hidden: HiddenPlaces,
}

/// Something that a program cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protection {
    /// Read memory and environment of the gateway and of other servers, or attach to them.
    Processes,
    /// Read the data folder, the configuration file, and the secret files it names.
    DataFolder,
    /// Gain rights by a program that has more.
    NoNewPrivileges,
}

/// The means of a protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    Landlock,
    /// A user and mount namespace.
    Namespace,
    /// Another user of this machine.
    RunAs,
    Container,
    /// The kernel's flag of that name.
    NoNewPrivileges,
}

/// One protection of a program, and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectionState {
    pub protection: Protection,
    /// The means of it; `None` if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Mechanism>,
    /// Why it is missing, or its price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The containment of one server's programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainmentStatus {
    /// `keys`, `off` or `container`.
    pub level: String,
    /// Every protection.
    pub protections: Vec<ProtectionState>,
}

// === impl Protection ===

impl Protection {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Processes, Self::DataFolder, Self::NoNewPrivileges];

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::DataFolder => "data folder",
            Self::NoNewPrivileges => "no new privileges",
        }
    }

    /// Its name as the value of a label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::DataFolder => "data_folder",
            Self::NoNewPrivileges => "no_new_privileges",
        }
    }

    /// The state of a working protection.
    pub const fn held(self, by: Mechanism) -> ProtectionState {
        ProtectionState { protection: self, by: Some(by), note: None }
    }

    /// The state of a missing protection.
    pub fn missing(self, why: impl Into<String>) -> ProtectionState {
        ProtectionState { protection: self, by: None, note: Some(why.into()) }
    }
}

// === impl Mechanism ===

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Landlock => "landlock",
            Self::Namespace => "namespace",
            Self::RunAs => "run_as",
            Self::Container => "container",
            Self::NoNewPrivileges => "yes",
        })
    }
}

// === impl ProtectionState ===

impl ProtectionState {
    /// The same, at this price.
    #[must_use]
    pub fn priced(self, price: impl Into<String>) -> Self {
        Self { note: Some(price.into()), ..self }
    }
}

impl fmt::Display for ProtectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.by {
            Some(by) => by.fmt(f),
            None => f.write_str("no"),
        }
    }
}

// === impl ContainmentStatus ===

impl ContainmentStatus {
    /// The missing protections, each with its reason.
    pub fn missing(&self) -> impl Iterator<Item = &ProtectionState> {
        self.protections.iter().filter(|state| state.by.is_none())
    }
}
