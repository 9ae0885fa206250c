
j
location/etc/passwdp