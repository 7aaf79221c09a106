//! Reading and writing JSON, with less code. What serde derives for a struct reads it as a list, too, which JSON never needs and which is a
//! third of what a page has to load for it; here a struct is asked for as a map, so that nothing calls that part and it is left out.

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter as Form, Serializer};
use std::fmt::{Formatter, Result as Written};
use std::io;

/// Reads a text as a value.
pub fn read<'de, T: Deserialize<'de>>(text: &'de str) -> serde_json::Result<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = T::deserialize(Maps(&mut json))?;
    json.end()?;
    Ok(value)
}

/// Writes a value down. What cannot be written, a map whose keys are no texts, is nothing that this page sends.
pub fn write<T: Serialize + ?Sized>(value: &T) -> String {
    let mut json = Vec::new();
    match value.serialize(&mut Serializer::with_formatter(&mut json, Plainly)) {
        Ok(()) => String::from_utf8(json).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

/// Broken numbers as the standard library writes them. serde_json's own way is quicker, and its tables are a hundredth of what
/// the page weighs.
struct Plainly;

impl Form for Plainly {
    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(value.to_string().as_bytes())
    }

    fn write_f32<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f32) -> io::Result<()> {
        self.write_f64(writer, value.into())
    }
}

/// Something of serde that meets structs as maps, here and further in.
struct Maps<T>(T);

/// What is passed on as it is: nothing further in can be a struct.
macro_rules! plain {
    ($($name:ident)*) => { $(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$name(visitor)
        }
    )* };
}

/// What is passed on with everything further in.
macro_rules! deep {
    ($($name:ident($($argument:ident: $kind:ty),*))*) => { $(
        fn $name<V: Visitor<'de>>(self, $($argument: $kind,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$name($($argument,)* Maps(visitor))
        }
    )* };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Maps<D> {
    type Error = D::Error;

    plain! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
        deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit
        deserialize_identifier deserialize_ignored_any
    }
    deep! {
        deserialize_option()
        deserialize_seq()
        deserialize_map()
        deserialize_unit_struct(name: &'static str)
        deserialize_newtype_struct(name: &'static str)
        deserialize_tuple(length: usize)
        deserialize_tuple_struct(name: &'static str, length: usize)
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Maps(visitor))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Maps<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> Written {
        self.0.expecting(formatter)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Maps(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Maps(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Maps(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Maps(map))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Maps(variant))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Maps<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Maps(inner))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Maps<A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        self.0.next_element_seed(Maps(seed))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Maps<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.0.next_value_seed(Maps(seed))
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Maps<A> {
    type Error = A::Error;
    type Variant = Maps<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        self.0.variant_seed(seed).map(|(name, inner)| (name, Maps(inner)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Maps<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
        self.0.newtype_variant_seed(Maps(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(length, Maps(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, A::Error> {
        self.0.newtype_variant_seed(Fields(visitor))
    }
}

/// The fields of a variant, as a map.
struct Fields<V>(V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Fields<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        inner.deserialize_map(Maps(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::tests::golden;
    use serde_json::value::RawValue;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Whole {
        name: String,
        inner: Option<Inner>,
        list: Vec<Inner>,
        kinds: Vec<Kind>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        number: u64,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Unit,
        New(Inner),
        Fields { x: i32, y: Option<i32> },
        Pair(i32, Inner),
    }

    const TEXT: &str = r#"{"name": "n", "inner": {"number": 1}, "list": [{"number": 2}], "other": [1],
        "kinds": ["unit", {"new": {"number": 3}}, {"fields": {"x": 4}}, {"pair": [5, {"number": 6}]}]}"#;

    #[test]
    fn it_reads_what_serde_reads() {
        assert_eq!(read::<Whole>(TEXT).unwrap(), serde_json::from_str(TEXT).unwrap());
        let raw: Vec<Box<RawValue>> = read(r#"[{"a": [1]}, null]"#).unwrap();
        assert_eq!(raw.iter().map(|raw| raw.get()).collect::<Vec<_>>(), [r#"{"a": [1]}"#, "null"]);
        for (kind, payload) in golden() {
            let value: serde_json::Value = read(payload).unwrap();
            assert_eq!(value, serde_json::from_str::<serde_json::Value>(payload).unwrap(), "{kind}");
        }
    }

    #[test]
    fn it_writes_what_serde_reads() {
        let value: serde_json::Value = serde_json::from_str(TEXT).unwrap();
        assert_eq!(write(&value), value.to_string());
        let numbers = [0.004, 5.0, 1e-6, 123_456.789];
        assert_eq!(write(&numbers), "[0.004,5,0.000001,123456.789]");
        assert_eq!(serde_json::from_str::<[f64; 4]>(&write(&numbers)).unwrap(), numbers);
        assert_eq!(write(&[f64::NAN]), "[null]");
    }

    #[test]
    fn a_struct_is_no_list_and_nothing_may_follow() {
        assert!(serde_json::from_str::<Inner>("[1]").is_ok() && read::<Inner>("[1]").is_err());
        assert!(read::<Inner>(r#"{"number": 1} x"#).is_err());
        assert!(read::<Inner>("{}").unwrap_err().to_string().contains("missing field `number`"));
        assert!(read::<Kind>(r#"{"fields": [1, 2]}"#).is_err());
    }
}
