//! Decoding of a template's variables into the type a function takes.

use serde::de::value::{Error, MapDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// Decodes values by name: texts as they are, numbers and booleans parsed.
pub(super) fn decode<T: DeserializeOwned>(values: Vec<(&str, String)>) -> Result<T, Error> {
    let values = values.into_iter().map(|(name, value)| (name, Text(value)));
    T::deserialize(MapDeserializer::new(values))
}

/// A text that can be deserialized as other types.
struct Text(String);

impl IntoDeserializer<'_> for Text {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.0.parse() {
                Ok(value) => visitor.$visit(value),
                Err(error) => Err(serde::de::Error::custom(error)),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Text {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    parsed! {
        deserialize_bool visit_bool
        deserialize_i8 visit_i8
        deserialize_i16 visit_i16
        deserialize_i32 visit_i32
        deserialize_i64 visit_i64
        deserialize_i128 visit_i128
        deserialize_u8 visit_u8
        deserialize_u16 visit_u16
        deserialize_u32 visit_u32
        deserialize_u64 visit_u64
        deserialize_u128 visit_u128
        deserialize_f32 visit_f32
        deserialize_f64 visit_f64
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::decode;
    use serde::Deserialize;
    use std::collections::HashMap;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Values {
        text: String,
        number: u8,
        flag: Option<bool>,
        kind: Kind,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Small,
    }

    /// MCP-080: variables are decoded into the type a function takes, or rejected.
    #[test]
    fn variables_are_decoded_into_the_type_of_the_function() {
        let values = |number: &str| {
            let text = |text: &str| text.to_owned();
            vec![
                ("text", text("7")),
                ("number", text(number)),
                ("flag", text("true")),
                ("kind", text("small")),
            ]
        };
        let expected = Values { text: "7".into(), number: 7, flag: Some(true), kind: Kind::Small };
        assert_eq!(decode::<Values>(values("7")).unwrap(), expected);
        for number in ["256", "-1", "", "x", "1.5"] {
            assert!(decode::<Values>(values(number)).is_err(), "{number}");
        }
        let map: HashMap<String, String> = decode(values("7")).unwrap();
        assert_eq!(map["number"], "7");
        assert!(decode::<Values>(vec![]).is_err());
    }
}
