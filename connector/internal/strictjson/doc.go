// Package strictjson reads JSON that a person wrote and tells the person
// everything that is wrong with it, each fault with its place.
//
// [Parse] turns a text into nodes that remember their offsets; a [Reader] walks
// them, knows the only keys there are, and keeps going after a fault. It is for
// small configuration files: nodes cost more than decoding into a struct.
package strictjson
