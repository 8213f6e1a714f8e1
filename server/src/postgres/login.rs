//! From a socket to a session: TLS, the startup packet, passwords.
//!
//! Who is let in, as which user:
//! - A user with `nopass` needs no password. While that is the user `default`, and it may do everything, a name that no
//!   user has is taken for it: so is a client of Redis that does not authenticate.
//! - A user whose passwords were given as text proves by SCRAM-SHA-256 that it knows one of them.
//! - A user whose passwords were given by their digests only sends one, over TLS. Without TLS it is refused.
//! - Any other name fails as a wrong password does: the exchange goes its whole way.
//!
//! What a user may do that is let in is asked when it does it (`rights`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use quipu_sql::{SqlError, SqlState};

use super::answers::Authentication;
use super::buffers::{Incoming, Outgoing};
use super::conversation::End;
use super::messages::{self, First, Malformed, Startup};
use super::scram::{self, Exchange, Failure, Parameters, Verifier};
use super::stream::{Stream, is_timeout};
use super::{Face, parameters};
use crate::state::server::NotAdmitted;
use crate::system::clock;
use crate::users::refusals::{Reason, RefusedClient};
use crate::users::verifier::{ITERATIONS, SALT_BYTES, sign};
use crate::users::{User, rules};

/// How long a client has until its session begins.
const LOGIN_MAX: Duration = Duration::from_secs(60);
/// Bytes of a message with a password.
const PASSWORD_BYTES_MAX: usize = 64 << 10;

type Result<T> = std::result::Result<T, End>;

/// What the client says of itself, and who it is.
pub(super) struct Known {
    pub(super) user: Arc<User>,
    pub(super) database: String,
    pub(super) minor: u16,
    /// Parameters of the session, in the order in which they came.
    pub(super) settings: Vec<(String, String)>,
}

/// A connection before its session.
pub(super) struct Login<'l> {
    face: &'l Face,
    incoming: &'l mut Incoming,
    out: Outgoing,
    address: &'l str,
    begun: Instant,
}

impl<'l> Login<'l> {
    pub(super) fn new(face: &'l Face, incoming: &'l mut Incoming, stream: Stream, address: &'l str) -> Login<'l> {
        Login { face, incoming, out: Outgoing::new(stream), address, begun: clock::moment() }
    }

    /// Lets a client in; none if it wanted something else, which is done then. `Outgoing` is where the failure is told.
    pub(super) fn run(mut self) -> (Result<Option<Known>>, Outgoing) {
        let known = self.until_known();
        (known, self.out)
    }

    fn until_known(&mut self) -> Result<Option<Known>> {
        loop {
            let packet = self.first_packet()?;
            match messages::first(&packet)? {
                First::Tls => self.take_up_tls()?,
                First::Gss => self.out.stream.send(b"N")?,
                First::Cancel { process, secret } => {
                    self.face.cancel(process, secret);
                    return Ok(None);
                }
                First::Startup(startup) => return self.take_startup(&startup).map(Some),
            }
        }
    }

    /// Waits for more of what has so many bytes.
    fn wait(&mut self, wanted_bytes: usize) -> Result<()> {
        let timed_out = || End::Broken(std::io::ErrorKind::TimedOut.into());
        let left = LOGIN_MAX.checked_sub(clock::since(self.begun)).ok_or_else(timed_out)?;
        self.out.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match self.incoming.fill(&mut self.out.stream, wanted_bytes) {
            Ok(0) => Err(End::Left),
            Ok(_) => Ok(()),
            Err(error) if is_timeout(&error) => Err(timed_out()),
            Err(error) => Err(error.into()),
        }
    }

    fn first_packet(&mut self) -> Result<Vec<u8>> {
        loop {
            // What is no packet is not answered: its sender may not speak the protocol or has left.
            let packet = messages::first_packet(self.incoming.rest()).map_err(|_| End::Left)?;
            if let Some((body, bytes)) = packet {
                let body = body.to_vec();
                self.incoming.consume(bytes);
                return Ok(body);
            }
            self.wait(messages::STARTUP_BYTES_MAX)?;
        }
    }

    /// The next message, which must have a password.
    fn password(&mut self) -> Result<Vec<u8>> {
        self.out.flush()?;
        loop {
            match messages::next_message(self.incoming.rest(), PASSWORD_BYTES_MAX)? {
                Some((b'p', body, bytes)) => {
                    let body = body.to_vec();
                    self.incoming.consume(bytes);
                    return Ok(body);
                }
                Some((b'X', ..)) => return Err(End::Left),
                Some(_) => return Err(Malformed::Layout("a password was expected").into()),
                None => self.wait(messages::wanted_bytes(self.incoming.rest()))?,
            }
        }
    }

    fn take_up_tls(&mut self) -> Result<()> {
        let Some(config) = self.face.tls.as_ref().filter(|_| !self.out.stream.is_tls()) else {
            return Ok(self.out.stream.send(b"N")?);
        };
        // Whatever came with the request was not sealed, and may be another's.
        if !self.incoming.rest().is_empty() {
            return Err(Malformed::Layout("received unencrypted data after SSL request").into());
        }
        self.out.stream.send(b"S")?;
        self.out.stream.upgrade(config)?;
        Ok(())
    }

    fn take_startup(&mut self, startup: &Startup<'_>) -> Result<Known> {
        let told = parameters::Told::read(startup).map_err(End::Fatal)?;
        if startup.minor > parameters::MINOR_MAX || !told.unknown.is_empty() {
            self.out.answers.negotiate(startup.minor.min(parameters::MINOR_MAX), &told.unknown);
        }
        if self.face.needs_tls && !self.out.stream.is_tls() {
            let text = "this server takes connections over TLS only";
            let error = SqlError::new(SqlState::INVALID_AUTHORIZATION, text).with_hint("Connect with sslmode=require.");
            return Err(End::Fatal(error));
        }
        if self.face.server.turns_away(crate::state::protection::ip_of(self.address)) {
            return Err(not_admitted(NotAdmitted::Protected));
        }
        let user = self.authenticate(told.user)?;
        let names = &self.face.databases;
        if !names.is_empty() && !names.iter().any(|name| *name == told.database) {
            let text = format!("database \"{}\" does not exist", told.database);
            let hint = "`--pg-databases` of the server says which may be named. All of them have the same tables.";
            return Err(End::Fatal(SqlError::new(SqlState::INVALID_CATALOG_NAME, text).with_hint(hint)));
        }
        let minor = startup.minor.min(parameters::MINOR_MAX);
        Ok(Known { user, database: told.database.to_owned(), minor, settings: told.settings })
    }

    fn authenticate(&mut self, name: &str) -> Result<Arc<User>> {
        let users = &self.face.server.users;
        let user = users.get(name.as_bytes()).filter(|user| user.rules().is_on);
        let user = match user {
            Some(user) => user,
            None => {
                let default = users.default_user();
                if users.needs_no_password() && default.may_do_everything() {
                    return Ok(default);
                }
                return self.refuse_by_scram(name);
            }
        };
        let (needs_no_password, verifiers, has_others) = {
            let rules = user.rules();
            let verifiers: Vec<Verifier> = rules.verifiers().cloned().collect();
            let has_others = verifiers.len() < rules.passwords.len();
            (rules.needs_no_password, verifiers, has_others)
        };
        if needs_no_password {
            return Ok(user);
        }
        // Of several, those are tried whose salt the client is told; what has none can only be compared as it is.
        match verifiers.first() {
            Some(first) if !(has_others && self.out.stream.is_tls()) => {
                let parameters = Parameters { salt: first.salt.clone(), iterations: first.iterations.get() };
                self.scram(name, &parameters, &verifiers).map(|()| user)
            }
            _ if has_others && self.out.stream.is_tls() => {
                self.out.answers.authentication(Authentication::ClearText);
                let body = self.password()?;
                let is_it = user.rules().has_password(messages::only_text(&body)?.as_bytes());
                if is_it { Ok(user) } else { Err(self.wrong_password(name)) }
            }
            _ => self.refuse_by_scram(name),
        }
    }

    /// Goes the whole way and refuses whatever is said.
    fn refuse_by_scram<T>(&mut self, name: &str) -> Result<T> {
        // The same for the same name, as it is for users that are there.
        let seed = self.face.server.keyspace.hash_seed().to_le_bytes();
        let salt = sign(&seed, name.as_bytes())[..SALT_BYTES].to_vec();
        self.scram(name, &Parameters { salt, iterations: ITERATIONS.get() }, &[])?;
        Err(self.wrong_password(name))
    }

    fn scram(&mut self, name: &str, parameters: &Parameters, verifiers: &[Verifier]) -> Result<()> {
        self.out.answers.authentication(Authentication::Sasl(&[scram::MECHANISM]));
        let body = self.password()?;
        let (mechanism, said) = messages::sasl_first(&body)?;
        if mechanism != scram::MECHANISM {
            return Err(Malformed::Layout("this mechanism of SASL was not offered").into());
        }
        let nonce = rules::hex(&rand::random::<[u8; 18]>());
        let malformed = |failure| match failure {
            Failure::Malformed(what) => Some(Malformed::Layout(what).into()),
            Failure::Wrong => None,
        };
        let exchange = match Exchange::begin(said, parameters, &nonce) {
            Ok(exchange) => exchange,
            Err(failure) => return Err(malformed(failure).unwrap_or_else(|| self.wrong_password(name))),
        };
        self.out.answers.authentication(Authentication::SaslContinue(exchange.server_first().as_bytes()));
        let body = self.password()?;
        match exchange.finish(&body, verifiers.iter()) {
            Ok(proof) => {
                self.out.answers.authentication(Authentication::SaslFinal(proof.as_bytes()));
                Ok(())
            }
            Err(failure) => Err(malformed(failure).unwrap_or_else(|| self.wrong_password(name))),
        }
    }

    fn wrong_password(&self, name: &str) -> End {
        self.note(Reason::Password, name, b"AUTH");
        let text = format!("password authentication failed for user \"{name}\"");
        let hint = "A password that the server was given by its digest (#...) can be used over TLS only.";
        End::Fatal(SqlError::new(SqlState::INVALID_PASSWORD, text).with_hint(hint))
    }

    /// Notes a refusal for `ACL LOG`.
    fn note(&self, reason: Reason, name: &str, object: &[u8]) {
        self.face.server.postgres.refused.fetch_add(1, Ordering::Relaxed);
        self.face.server.note_refusal(RefusedClient {
            count: 1,
            reason,
            in_transaction: false,
            object: object.to_vec(),
            user: name.to_owned(),
            last_ms: clock::now_ms(),
            client: format!("addr={} name= user={name} lib-name=postgres", self.address),
        });
    }
}

/// The error that each client gets that is not let in, the same for all.
pub(super) fn not_admitted(why: NotAdmitted) -> End {
    End::Fatal(match why {
        NotAdmitted::Protected => SqlError::new(SqlState::INVALID_AUTHORIZATION, crate::state::protection::EXPLANATION),
        NotAdmitted::Full => SqlError::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already")
            .with_hint("`--pg-connections-max` and `--maxclients` of the server say how many there may be."),
    })
}
