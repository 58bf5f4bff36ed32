//! Rotation of the master key.

use std::{fs, path::Path, sync::Arc};

use lockkeeper::{
    model::{AllowedNetworks, BackendId, Direct, NewKey, Rights, UserId},
    oauth::{MasterKeySource, OAuth, OAuthSettings, master_key},
    storage::Storage,
    support::{Clock, ManualClock, OsRandom, Secret},
    vault::{Vault, VaultOwner, VaultPlace},
};

use crate::support::oauth::{HOME, ISSUER};

/// A gateway's data: the database, and the file of the master key.
struct Installation {
    folder: tempfile::TempDir,
    clock: Arc<dyn Clock>,
}

/// The parts that keep secrets.
struct Opened {
    storage: Storage,
    oauth: OAuth,
    vault: Vault,
}

impl Installation {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), clock: Arc::new(ManualClock::default()) }
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    async fn storage(&self) -> Storage {
        Storage::open(&self.file("lockkeeper.sqlite3")).await.unwrap()
    }

    async fn open(&self) -> Opened {
        let storage = self.storage().await;
        let source = MasterKeySource::File(self.file("master.key"));
        let settings = OAuthSettings { master_key: source.clone(), ..OAuthSettings::new(ISSUER) };
        let oauth = OAuth::open(storage.clone(), Arc::clone(&self.clock), Arc::new(OsRandom), settings).await.unwrap();
        let key = master_key::master_key(&source, &storage, &OsRandom).await.unwrap();
        let vault = Vault::new(storage.clone(), key, Arc::clone(&self.clock), Arc::new(OsRandom));
        Opened { storage, oauth, vault }
    }

    async fn rotate(&self) -> usize {
        let storage = self.storage().await;
        let rotated = master_key::rotate(&self.file("master.key"), &storage, &OsRandom).await.unwrap();
        storage.close().await;
        rotated
    }

    fn key(&self) -> String {
        fs::read_to_string(self.file("master.key")).unwrap()
    }
}

impl Opened {
    async fn create_key(&self) -> Secret {
        let (name, user) = ("a key".to_owned(), Some(UserId::new("ada")));
        let new = NewKey {
            name,
            user,
            rights: Rights::all_backends(),
            direct: Direct::Allowed,
            expires: None,
            networks: AllowedNetworks::default(),
        };
        self.oauth.keys().create(new).await.unwrap().1
    }

    async fn seal(&self) -> Vec<u8> {
        self.vault.seal(place(&UserId::new("ada"), &BackendId::parse("git").unwrap()), b"a token").await.unwrap()
    }

    /// Everything that was sealed is there.
    async fn has(&self, key: &Secret, sealed: &[u8]) {
        self.oauth.keys().authenticate(key.expose(), HOME).await.unwrap();
        assert_eq!(self.oauth.signing_keys().list().await.unwrap().len(), 1);
        let opened = self.vault.open(place(&UserId::new("ada"), &BackendId::parse("git").unwrap()), sealed).await;
        assert_eq!(opened.unwrap().as_slice(), b"a token");
    }
}

fn place<'a>(user: &'a UserId, backend: &'a BackendId) -> VaultPlace<'a> {
    VaultPlace { owner: VaultOwner::User(user), backend: Some(backend), issuer: "https://as", field: "tokens" }
}

fn next(path: &Path) -> std::path::PathBuf {
    path.join("master.key.next")
}

#[tokio::test]
async fn up_002_after_a_rotation_of_the_master_key_every_secret_opens_under_the_new_one() {
    let at = Installation::new();
    let before = at.open().await;
    let (key, sealed, old) = (before.create_key().await, before.seal().await, at.key());
    before.storage.close().await;
    // the pepper, the signing key, the data key
    assert_eq!(at.rotate().await, 3);
    assert_ne!(at.key(), old);
    assert!(!next(at.folder.path()).exists());
    at.open().await.has(&key, &sealed).await;

    fs::write(at.file("master.key"), old).unwrap();
    let settings =
        OAuthSettings { master_key: MasterKeySource::File(at.file("master.key")), ..OAuthSettings::new(ISSUER) };
    let storage = at.storage().await;
    let opened = OAuth::open(storage, Arc::clone(&at.clock), Arc::new(OsRandom), settings).await;
    assert!(opened.unwrap_err().to_string().contains("does not decrypt with this master key"));
}

#[tokio::test]
async fn up_002_a_rotation_that_ends_before_the_database_changed_leaves_the_old_key() {
    let at = Installation::new();
    let before = at.open().await;
    let (key, sealed, old) = (before.create_key().await, before.seal().await, at.key());
    for text in [old.chars().rev().collect::<String>(), "half".to_owned(), String::new()] {
        fs::write(next(at.folder.path()), text).unwrap();
        at.open().await.has(&key, &sealed).await;
        master_key::finish_rotation(&at.file("master.key"), &before.storage, &OsRandom).await.unwrap();
        assert!(!next(at.folder.path()).exists());
        assert_eq!(at.key(), old);
    }
}

#[tokio::test]
async fn up_002_a_rotation_that_ends_before_the_files_changed_leaves_the_new_key() {
    let at = Installation::new();
    let before = at.open().await;
    let (key, sealed, old) = (before.create_key().await, before.seal().await, at.key());
    before.storage.close().await;
    at.rotate().await;
    let new = at.key();
    fs::write(next(at.folder.path()), &new).unwrap();
    fs::write(at.file("master.key"), old).unwrap();
    // a command beside the gateway chooses the right one, and the gateway puts it in its place
    let opened = at.open().await;
    opened.has(&key, &sealed).await;
    master_key::finish_rotation(&at.file("master.key"), &opened.storage, &OsRandom).await.unwrap();
    assert!(!next(at.folder.path()).exists());
    assert_eq!(at.key(), new);
    at.open().await.has(&key, &sealed).await;
}
