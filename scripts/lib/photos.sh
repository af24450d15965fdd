# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# Photos to train on, from a system package of wallpapers. Sourced by scripts/setup.

photos_source=lomiri-wallpapers-16.04
packages_for_photos=("$photos_source" python3-pil)
photos=$deps/photos

# What the photos are made from and with.
photos_recipe() {
  dpkg-query -W "${packages_for_photos[@]}"
  cat "$root/scripts/lib/photos.py"
}

# Made in a folder beside the final one, which is renamed when it is whole.
make_photos() {
  local wanted
  wanted=$(photos_recipe | sha256sum | cut -d' ' -f1)
  if [[ -f $photos/.stamp && $(<"$photos/.stamp") == "$wanted" ]]; then
    step "photos: already in .deps/photos"
    return
  fi
  step "photos: making them in .deps/photos"
  local pictures
  mapfile -t pictures < <(dpkg-query -L "$photos_source" | grep '\.jpg$')
  ((${#pictures[@]} > 0)) ||
    stop "the package $photos_source holds no photos" "dpkg-query -L $photos_source" "report this"
  rm -rf "$photos.new"
  /usr/bin/python3 "$root/scripts/lib/photos.py" "$photos.new" "${pictures[@]}" >"$log" 2>&1 || {
    tail -n 15 "$log" >&2
    rm -rf "$photos.new"
    stop "the photos cannot be made" "scripts/lib/photos.py (its last lines are above)" \
      "mend what it says, then run this again"
  }
  echo "$wanted" >"$photos.new/.stamp"
  rm -rf "$photos"
  mv "$photos.new" "$photos"
  note "${#pictures[@]} photos of 800 x 533"
}
