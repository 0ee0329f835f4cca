//! `#[hare(...)]` as typed values that know where they were written.
//!
//! Nothing here knows the entity: whether a field exists, or which columns are held, is checked in [`capture`](crate::capture).
//! A mistake is reported and leaves the default in place, so that the rest can go on.

use darling::ast::NestedMeta;
use darling::error::Accumulator;
use darling::{Error, Result};
use proc_macro2::Span;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprLit, Ident, Lit, LitStr, Meta, MetaList, Path, Token, parse_quote};

use crate::capture::template::{self, Purpose, Template};
use crate::words;

/// Beside `capture(...)`.
const ON_STRUCTS: [&str; 2] = ["capture", "crate"];
const ON_FIELDS: [&str; 2] = ["json_with", "sensitive"];
const IN_CAPTURE: [&str; 21] = [
    "app",
    "envelope",
    "exclude",
    "extend",
    "extend_many",
    "fields",
    "hooks",
    "name",
    "no_shadow",
    "on_pool",
    "operations",
    "ordering_key",
    "ordering_key_with",
    "outbox",
    "payload",
    "profile",
    "sink",
    "strategy",
    "topic",
    "topic_with",
    "unordered",
];
/// Pairs of which a declaration has one at most. A sink takes changes before they are events.
const CONFLICTS: [(&str, &str); 15] = [
    ("fields", "exclude"),
    ("topic", "topic_with"),
    ("ordering_key", "unordered"),
    ("ordering_key", "ordering_key_with"),
    ("ordering_key_with", "unordered"),
    ("extend", "extend_many"),
    ("sink", "envelope"),
    ("sink", "extend"),
    ("sink", "extend_many"),
    ("sink", "ordering_key"),
    ("sink", "ordering_key_with"),
    ("sink", "outbox"),
    ("sink", "topic"),
    ("sink", "topic_with"),
    ("sink", "unordered"),
];

/// What an event holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    Keys,
    After,
    BeforeAndAfter,
}

/// What generic inserts and deletes do on a bare pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnPool {
    Refuse,
    NonAtomic,
}

/// How writes are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    Auto,
    Portable,
}

/// How a payload presents a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Envelope {
    Plain,
    CloudEvents,
}

/// What makes events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operations {
    pub(crate) insert: bool,
    pub(crate) update: bool,
    pub(crate) delete: bool,
}

/// The columns that events hold, as written.
#[derive(Debug, Clone, Default)]
pub(crate) enum Choice {
    /// Every stored column that is not sensitive.
    #[default]
    Default,
    Fields(Vec<Ident>),
    Exclude(Vec<Ident>),
}

/// What gives events their topic.
#[derive(Debug, Clone)]
pub(crate) enum Topic {
    Template(Template),
    Function(Path),
}

/// What orders events.
#[derive(Debug, Clone)]
pub(crate) enum OrderingKey {
    Template(Template),
    Function(Path),
    Unordered,
}

/// What is run for each statement.
#[derive(Debug, Clone)]
pub(crate) enum Code {
    Extend(Path),
    ExtendMany(Path),
    Sink(Path),
}

/// A method that hides SeaORM's of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Insert,
    Update,
    Save,
    Delete,
    UpdateWithoutReturning,
    ModelDelete,
    DeleteLinks,
    DeleteLinksSelf,
    EntityInsert,
    InsertMany,
    EntityUpdate,
    UpdateMany,
    EntityDelete,
    DeleteMany,
    DeleteById,
}

/// All of `#[hare(...)]` on a struct. What is `None` is not said: it is the profile's, or else the default.
#[derive(Debug)]
pub(crate) struct StructAttributes {
    /// Where `hare_seaorm` is found.
    pub(crate) root: Path,
    pub(crate) app: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) outbox: Option<Path>,
    pub(crate) profile: Option<Path>,
    pub(crate) payload: Option<Payload>,
    pub(crate) operations: Option<Operations>,
    pub(crate) columns: Choice,
    pub(crate) topic: Option<Topic>,
    pub(crate) ordering_key: Option<OrderingKey>,
    pub(crate) envelope: Option<Envelope>,
    pub(crate) code: Option<Code>,
    pub(crate) hooks: bool,
    pub(crate) no_shadow: Vec<Method>,
    pub(crate) on_pool: Option<OnPool>,
    pub(crate) strategy: Option<Strategy>,
}

impl Default for StructAttributes {
    fn default() -> Self {
        Self {
            root: default_root(),
            app: None,
            name: None,
            outbox: None,
            profile: None,
            payload: None,
            operations: None,
            columns: Choice::default(),
            topic: None,
            ordering_key: None,
            envelope: None,
            code: None,
            hooks: false,
            no_shadow: Vec::new(),
            on_pool: None,
            strategy: None,
        }
    }
}

/// All of `#[hare(...)]` on a field.
#[derive(Debug, Default)]
pub(crate) struct FieldAttributes {
    /// Where it says `sensitive`.
    pub(crate) sensitive: Option<Span>,
    /// Where it says `json_with`, and the function's path unless that is a mistake.
    pub(crate) json_with: Option<(Span, Option<Path>)>,
}

/// Where `hare_seaorm` is found unless `crate = "path"` says otherwise.
pub(crate) fn default_root() -> Path {
    parse_quote!(::hare_seaorm)
}

impl StructAttributes {
    /// Reads them, reporting every mistake.
    pub(crate) fn read(attributes: &[Attribute], errors: &mut Accumulator) -> Self {
        let mut read = Self::default();
        let mut beside = Keys::default();
        let mut inside = Keys::default();
        for (word, meta) in hare_keys(attributes, errors) {
            match word.as_str() {
                "crate" => {
                    beside.seen(&word, meta.path().span());
                    errors
                        .handle_in(|| string_path(&word, &meta))
                        .into_iter()
                        .for_each(|root| read.root = root);
                }
                // Several `capture(...)` are one, as several `#[sea_orm(...)]` are.
                "capture" => {
                    for (word, meta) in errors.handle_in(|| capture_keys(&meta)).into_iter().flatten() {
                        inside.seen(&word, meta.path().span());
                        read.capture_key(&word, &meta, errors);
                    }
                }
                word if ON_FIELDS.contains(&word) => errors.push(words::error(
                    meta.path().span(),
                    format!("`{word}` goes on a field"),
                )),
                word if IN_CAPTURE.contains(&word) => errors.push(words::error(
                    meta.path().span(),
                    format!("`{word}` goes inside `capture(...)`: `#[hare(capture({word} ...))]`"),
                )),
                word => errors.push(words::error(
                    meta.path().span(),
                    words::unknown(word, "an attribute of `hare`", &ON_STRUCTS),
                )),
            }
        }
        beside.report_duplicates(errors);
        inside.report_duplicates(errors);
        inside.report_conflicts(errors);
        read
    }

    fn capture_key(&mut self, word: &str, meta: &Meta, errors: &mut Accumulator) {
        let outcome = match word {
            "app" => not_empty(word, meta).map(|app| self.app = Some(app)),
            "name" => not_empty(word, meta).map(|name| self.name = Some(name)),
            "outbox" => path(word, meta, "path::to::Entity").map(|path| self.outbox = Some(path)),
            "payload" => one_of(word, meta, "a payload", &[
                ("keys", Payload::Keys),
                ("after", Payload::After),
                ("before_and_after", Payload::BeforeAndAfter),
            ])
            .map(|payload| self.payload = Some(payload)),
            "operations" => words_in(word, meta, "insert, update, delete").map(|listed| {
                let chosen = some_of(listed, "an operation", &[("insert", 0), ("update", 1), ("delete", 2)], errors);
                self.operations = Some(Operations {
                    insert: chosen.contains(&0),
                    update: chosen.contains(&1),
                    delete: chosen.contains(&2),
                });
            }),
            "fields" => words_in(word, meta, "a, b").and_then(|fields| {
                if fields.is_empty() {
                    let instead = "`fields()` names no column; for events that hold the primary key alone write `payload = \"keys\"`";
                    return Err(words::error(meta.path().span(), instead));
                }
                self.columns = Choice::Fields(fields);
                Ok(())
            }),
            "exclude" => words_in(word, meta, "a, b").map(|fields| {
                // Beside `fields` it is a conflict, which is reported; `fields` says more of what was meant.
                if !matches!(self.columns, Choice::Fields(_)) {
                    self.columns = Choice::Exclude(fields);
                }
            }),
            "profile" => path(word, meta, "path::to::Type").map(|profile| self.profile = Some(profile)),
            "topic" => template(word, meta, Purpose::Topic).map(|topic| self.topic = Some(Topic::Template(topic))),
            "topic_with" => path(word, meta, FUNCTION).map(|function| self.topic = Some(Topic::Function(function))),
            "ordering_key" => template(word, meta, Purpose::OrderingKey)
                .map(|template| self.ordering_key = Some(OrderingKey::Template(template))),
            "ordering_key_with" => path(word, meta, FUNCTION)
                .map(|function| self.ordering_key = Some(OrderingKey::Function(function))),
            "unordered" => {
                self.ordering_key = Some(OrderingKey::Unordered);
                flag(word, meta)
            }
            "envelope" => {
                let known = [("plain", Envelope::Plain), ("cloudevents", Envelope::CloudEvents)];
                one_of(word, meta, "a form of the envelope", &known).map(|envelope| self.envelope = Some(envelope))
            }
            "extend" => path(word, meta, FUNCTION).map(|function| self.code = Some(Code::Extend(function))),
            "extend_many" => path(word, meta, FUNCTION).map(|function| self.code = Some(Code::ExtendMany(function))),
            "sink" => path(word, meta, "path::to::Type").map(|sink| self.code = Some(Code::Sink(sink))),
            // Also with a mistake: the user's hooks are there, and a second impl would be one error more.
            "hooks" => {
                self.hooks = true;
                flag(word, meta)
            }
            "no_shadow" => words_in(word, meta, "insert, model_delete").map(|listed| {
                self.no_shadow = some_of(listed, "a method the derive writes", &METHODS, errors);
            }),
            "on_pool" => {
                let known = [("refuse", OnPool::Refuse), ("non_atomic", OnPool::NonAtomic)];
                one_of(word, meta, "a value of `on_pool`", &known).map(|on_pool| self.on_pool = Some(on_pool))
            }
            "strategy" => one_of(word, meta, "a strategy", &[("auto", Strategy::Auto), ("portable", Strategy::Portable)])
                .map(|strategy| self.strategy = Some(strategy)),
            "crate" => Err(words::error(
                meta.path().span(),
                "`crate` goes beside `capture(...)`: `#[hare(crate = \"...\", capture(...))]`",
            )),
            word if ON_FIELDS.contains(&word) => {
                Err(words::error(meta.path().span(), format!("`{word}` goes on a field")))
            }
            word => Err(words::error(meta.path().span(), words::unknown(word, "a key of `capture`", &IN_CAPTURE))),
        };
        errors.handle(outcome);
    }
}

/// What a path to a function looks like.
const FUNCTION: &str = "path::to::function";

const METHODS: [(&str, Method); 15] = [
    ("insert", Method::Insert),
    ("update", Method::Update),
    ("save", Method::Save),
    ("delete", Method::Delete),
    ("update_without_returning", Method::UpdateWithoutReturning),
    ("model_delete", Method::ModelDelete),
    ("delete_links", Method::DeleteLinks),
    ("delete_links_self", Method::DeleteLinksSelf),
    ("entity_insert", Method::EntityInsert),
    ("insert_many", Method::InsertMany),
    ("entity_update", Method::EntityUpdate),
    ("update_many", Method::UpdateMany),
    ("entity_delete", Method::EntityDelete),
    ("delete_many", Method::DeleteMany),
    ("delete_by_id", Method::DeleteById),
];

impl FieldAttributes {
    /// Reads them, reporting every mistake.
    pub(crate) fn read(attributes: &[Attribute], errors: &mut Accumulator) -> Self {
        let mut read = Self::default();
        let mut keys = Keys::default();
        for (word, meta) in hare_keys(attributes, errors) {
            let span = meta.path().span();
            match word.as_str() {
                "sensitive" => {
                    keys.seen(&word, meta.path().span());
                    errors.handle(flag(&word, &meta));
                    read.sensitive = Some(span);
                }
                "json_with" => {
                    keys.seen(&word, meta.path().span());
                    let function = errors.handle(path(&word, &meta, FUNCTION));
                    read.json_with = Some((span, function));
                }
                word if ON_STRUCTS.contains(&word) => {
                    errors.push(words::error(
                        span,
                        format!("`{word}` goes on the struct, not on a field"),
                    ));
                }
                word => errors.push(words::error(
                    span,
                    words::unknown(word, "a field attribute of `hare`", &ON_FIELDS),
                )),
            }
        }
        keys.report_duplicates(errors);
        read
    }
}

/// The `crate = "path"` of `#[behavior(...)]`.
pub(crate) fn behavior_root(arguments: proc_macro2::TokenStream, errors: &mut Accumulator) -> Path {
    let mut root = default_root();
    let mut keys = Keys::default();
    for argument in argument_keys(arguments, errors) {
        let Some((word, meta)) = errors.handle(argument) else {
            continue;
        };
        keys.seen(&word, meta.path().span());
        if word == "crate" {
            errors
                .handle_in(|| string_path(&word, &meta))
                .into_iter()
                .for_each(|path| root = path);
        } else {
            let unknown = words::unknown(&word, "an argument of `behavior`", &["crate"]);
            errors.push(words::error(meta.path().span(), unknown));
        }
    }
    keys.report_duplicates(errors);
    root
}

/// The keys that an attribute macro is given; the mistakes among them in their place, so that all come in the order of the text.
pub(crate) fn argument_keys(
    arguments: proc_macro2::TokenStream,
    errors: &mut Accumulator,
) -> impl Iterator<Item = Result<(String, Meta)>> + use<> {
    let listed = errors.handle_in(|| NestedMeta::parse_meta_list(arguments).map_err(Error::from));
    listed.into_iter().flatten().map(key)
}

/// Which keys were given, and where.
#[derive(Default)]
pub(crate) struct Keys(Vec<(String, Vec<Span>)>);

impl Keys {
    pub(crate) fn seen(&mut self, word: &str, span: Span) {
        match self.0.iter_mut().find(|(seen, _)| seen == word) {
            Some((_, spans)) => spans.push(span),
            None => self.0.push((word.to_owned(), vec![span])),
        }
    }

    /// At each of them.
    pub(crate) fn report_duplicates(&self, errors: &mut Accumulator) {
        for (word, spans) in self.0.iter().filter(|(_, spans)| spans.len() > 1) {
            for span in spans {
                errors.push(words::error(*span, format!("`{word}` is given more than once")));
            }
        }
    }

    /// At both.
    fn report_conflicts(&self, errors: &mut Accumulator) {
        let place = |word: &str| {
            self.0
                .iter()
                .find(|(seen, _)| seen == word)
                .and_then(|(_, spans)| spans.first())
        };
        for (one, other) in CONFLICTS {
            if let (Some(first), Some(second)) = (place(one), place(other)) {
                for (span, word, against) in [(first, one, other), (second, other, one)] {
                    errors.push(words::error(
                        *span,
                        format!("`{word}` and `{against}` cannot stand together: keep one"),
                    ));
                }
            }
        }
    }
}

/// The keys of all `#[hare(...)]`.
fn hare_keys(attributes: &[Attribute], errors: &mut Accumulator) -> Vec<(String, Meta)> {
    let mut keys = Vec::new();
    for attribute in attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("hare"))
    {
        let Meta::List(list) = &attribute.meta else {
            errors.push(words::error(
                attribute.path().span(),
                "`hare` takes a list: `#[hare(...)]`",
            ));
            continue;
        };
        let listed = errors.handle_in(|| listed(list));
        for item in listed.into_iter().flatten() {
            keys.extend(errors.handle_in(|| key(item)));
        }
    }
    keys
}

/// The keys in a `capture(...)`.
fn capture_keys(meta: &Meta) -> Result<Vec<(String, Meta)>> {
    match meta {
        Meta::Path(_) => Ok(Vec::new()),
        Meta::List(list) => {
            let mut errors = Error::accumulator();
            let listed = errors.handle_in(|| listed(list));
            let keys = listed
                .into_iter()
                .flatten()
                .filter_map(|item| errors.handle_in(|| key(item)))
                .collect::<Vec<_>>();
            errors.finish_with(keys)
        }
        Meta::NameValue(pair) => Err(words::error(
            pair.value.span(),
            "`capture` takes a list: `capture(...)`",
        )),
    }
}

/// What a list holds. Parsed in its delimiters, so that an unexpected end is reported at the closing one.
fn listed(list: &MetaList) -> Result<Vec<NestedMeta>> {
    let items = list.parse_args_with(Punctuated::<NestedMeta, Token![,]>::parse_terminated)?;
    Ok(items.into_iter().collect())
}

/// A key with its word.
fn key(item: NestedMeta) -> Result<(String, Meta)> {
    match item {
        NestedMeta::Meta(meta) => match meta.path().get_ident() {
            Some(word) => Ok((words::plain(word), meta)),
            None => Err(words::error(meta.path().span(), "expected a single word")),
        },
        NestedMeta::Lit(literal) => Err(words::error(literal.span(), "expected a word, not a value")),
        NestedMeta::NameValueInvalidExpr(pair) => Err(pair.error),
    }
}

/// A word alone.
pub(crate) fn flag(word: &str, meta: &Meta) -> Result<()> {
    match meta {
        Meta::Path(_) => Ok(()),
        Meta::List(_) | Meta::NameValue(_) => Err(words::error(
            meta.path().span(),
            format!("`{word}` stands alone, without a value"),
        )),
    }
}

/// `word = value`, with the wrappers of `macro_rules!` taken off the value.
fn value<'a>(word: &str, meta: &'a Meta, example: &str) -> Result<&'a Expr> {
    let Meta::NameValue(pair) = meta else {
        return Err(words::error(
            meta.path().span(),
            format!("`{word}` needs a value: `{word} = {example}`"),
        ));
    };
    let mut value = &pair.value;
    while let Expr::Group(group) = value {
        value = &group.expr;
    }
    Ok(value)
}

fn string<'a>(word: &str, meta: &'a Meta) -> Result<&'a LitStr> {
    match value(word, meta, "\"...\"")? {
        Expr::Lit(ExprLit {
            lit: Lit::Str(string),
            ..
        }) => Ok(string),
        other => Err(words::error(
            other.span(),
            format!("`{word}` needs a string: `{word} = \"...\"`"),
        )),
    }
}

pub(crate) fn not_empty(word: &str, meta: &Meta) -> Result<String> {
    let string = string(word, meta)?;
    if string.value().trim().is_empty() {
        return Err(words::error(string.span(), format!("`{word}` cannot be empty")));
    }
    Ok(string.value())
}

pub(crate) fn path(word: &str, meta: &Meta, example: &str) -> Result<Path> {
    match value(word, meta, example)? {
        Expr::Path(path) if path.qself.is_none() => Ok(path.path.clone()),
        other => Err(words::error(
            other.span(),
            format!("`{word}` needs a path without quotes: `{word} = {example}`"),
        )),
    }
}

/// A path in a string, as in serde's `crate`.
pub(crate) fn string_path(word: &str, meta: &Meta) -> Result<Path> {
    let string = string(word, meta)?;
    string.parse_with(Path::parse_mod_style).map_err(|_| {
        words::error(
            string.span(),
            format!("`{}` is not the path of a crate or module", string.value()),
        )
    })
}

fn one_of<T: Copy>(word: &str, meta: &Meta, what: &str, known: &[(&str, T)]) -> Result<T> {
    let string = string(word, meta)?;
    find(&string.value(), known).ok_or_else(|| {
        let names = known.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        words::error(string.span(), words::unknown(&string.value(), what, &names))
    })
}

/// The words of `word(a, b)`.
pub(crate) fn words_in(word: &str, meta: &Meta, example: &str) -> Result<Vec<Ident>> {
    let Meta::List(list) = meta else {
        return Err(words::error(
            meta.path().span(),
            format!("`{word}` needs a list: `{word}({example})`"),
        ));
    };
    // Before the accumulator: one that is dropped unfinished panics.
    let items = listed(list)?;
    let mut errors = Error::accumulator();
    let mut found = Vec::new();
    for item in items {
        match &item {
            NestedMeta::Meta(Meta::Path(path)) if path.get_ident().is_some() => {
                found.extend(path.get_ident().cloned())
            }
            other => errors.push(words::error(
                other.span(),
                format!("expected a single word, as in `{word}({example})`"),
            )),
        }
    }
    errors.finish_with(found)
}

/// What the listed words stand for; each once.
fn some_of<T: Copy>(listed: Vec<Ident>, what: &str, known: &[(&str, T)], errors: &mut Accumulator) -> Vec<T> {
    let names = known.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let mut keys = Keys::default();
    let mut chosen = Vec::new();
    for ident in listed {
        let word = words::plain(&ident);
        match find(&word, known) {
            Some(found) => {
                keys.seen(&word, ident.span());
                chosen.push(found);
            }
            None => errors.push(words::error(ident.span(), words::unknown(&word, what, &names))),
        }
    }
    keys.report_duplicates(errors);
    chosen
}

fn find<T: Copy>(word: &str, known: &[(&str, T)]) -> Option<T> {
    known
        .iter()
        .find(|(name, _)| *name == word)
        .map(|(_, value)| *value)
}

fn template(word: &str, meta: &Meta, purpose: Purpose) -> Result<Template> {
    let string = string(word, meta)?;
    template::parse(&string.value(), purpose).map_err(|mistakes| {
        Error::multiple(
            mistakes
                .into_iter()
                .map(|mistake| words::error(string.span(), mistake))
                .collect(),
        )
    })
}
